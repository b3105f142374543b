#!/usr/bin/env bash
# Downloads the tools for packaging and testing the chart into build/helm, from the registries of Go and Python: helm,
# kubeconform, the schemas of several Kubernetes versions and of the Prometheus operator's objects.
set -euo pipefail
cd "$(dirname "$0")/.."

helm=v3.22.0
kubeconform=v0.8.0
kubernetes_validate=1.37.0
prometheus_operator=v0.85.0
# The Kubernetes version that helm assumes without a cluster, set as in Helm's own build.
minor=37

folder=build/helm
wanted="$helm $kubeconform $kubernetes_validate $prometheus_operator $minor"
if [ "$(cat "$folder/versions" 2>/dev/null)" = "$wanted" ]; then exit 0; fi  # missing before the first run
command -v go >/dev/null || { echo "helm is built with Go, which is not here: install it (https://go.dev/doc/install)" >&2; exit 1; }

echo "getting helm $helm, kubeconform $kubeconform and schemas into $folder: some minutes, once"
rm -rf "$folder"
mkdir -p "$folder/bin"
package=helm.sh/helm/v3/pkg
flags=(-trimpath -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$helm
    -X $package/chartutil.k8sVersionMajor=1 -X $package/chartutil.k8sVersionMinor=$minor
    -X $package/lint/rules.k8sVersionMajor=1 -X $package/lint/rules.k8sVersionMinor=$minor")
GOBIN="$PWD/$folder/bin" go install "${flags[@]}" "helm.sh/helm/v3/cmd/helm@$helm"
GOBIN="$PWD/$folder/bin" go install -trimpath "github.com/yannh/kubeconform/cmd/kubeconform@$kubeconform"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/python" "kubernetes-validate==$kubernetes_validate"
operator=$(go mod download -json "github.com/prometheus-operator/prometheus-operator@$prometheus_operator" |
    .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
# The oldest and the newest version that the chart supports.
.venv/bin/python .ci/helm_schemas.py "$operator/jsonnet/prometheus-operator" \
    "$folder/python/kubernetes_validate/kubernetes-json-schema" "$folder/schemas" 1.25.0 "1.$minor.0"
rm -r "$folder/python"
echo "$wanted" >"$folder/versions"
