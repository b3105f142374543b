"""The token formats of public services, from the public rules of secret scanners."""

from __future__ import annotations

_ALNUM, _HEX, _URL_SAFE = "A-Za-z0-9", "0-9a-f", "A-Za-z0-9_-"
# For each token: (prefix pattern, allowed characters, minimum length after the prefix).
TOKENS: tuple[tuple[str, str, int], ...] = (
    (r"gh[opsru]_", _ALNUM, 16),  # GitHub
    (r"github_pat_", "A-Za-z0-9_", 20),
    (r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-", _URL_SAFE, 16),  # GitLab
    (r"(?:hf|api_org)_", _ALNUM, 16),  # Hugging Face
    (r"sk-(?:proj-|svcacct-|admin-|ant-[a-z0-9]{2,8}-|or-v1-)?", _URL_SAFE, 16),  # OpenAI, Anthropic, OpenRouter
    (r"(?:AKIA|ASIA|AGPA|AIDA|AROA|AIPA|ANPA|ANVA|ABIA|ACCA)", "A-Z0-9", 12),  # AWS
    (r"AIza", _URL_SAFE, 20),  # Google
    (r"ya29\.", _URL_SAFE, 20),
    (r"GOCSPX-", _URL_SAFE, 20),
    (r"xox[abeoprs]-", "A-Za-z0-9-", 10),  # Slack
    (r"xapp-", "A-Za-z0-9-", 10),
    (r"npm_", _ALNUM, 20),
    (r"pypi-", _URL_SAFE, 32),
    (r"(?:sk|rk|pk)_(?:live|test)_", _ALNUM, 10),  # Stripe
    (r"dckr_(?:pat|oat)_", _URL_SAFE, 16),  # Docker
    (r"gl(?:sa|c)_", "A-Za-z0-9_=+/", 20),  # Grafana
    (r"hv[sbr]\.", _URL_SAFE, 20),  # Vault
    (r"dapi", _HEX, 32),  # Databricks
    (r"do[opr]_v1_", _HEX, 32),  # DigitalOcean
    (r"SG\.[A-Za-z0-9_-]{16,32}\.", _URL_SAFE, 16),  # SendGrid
    (r"[0-9]{8,10}:AA", _URL_SAFE, 30),  # Telegram
    (r"nvapi-", _URL_SAFE, 20),  # NVIDIA NGC
    (r"r8_", _ALNUM, 20),  # Replicate
    (r"wandb_v1_", _URL_SAFE, 20),
    (r"tskey-[a-z]{2,10}-", "A-Za-z0-9-", 10),  # Tailscale
    (r"AGE-SECRET-KEY-1", "A-Z0-9", 20),
    (r"eyJ[A-Za-z0-9_-]{2,}\.", "A-Za-z0-9_.-", 2),  # a JSON web token: two or three parts
)
