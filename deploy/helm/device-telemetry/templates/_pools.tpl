{{/* JSON of every pool that is on, whole: the defaults, what it is like, and what it says itself. */}}
{{- define "telemetry.pools" -}}
{{- $pools := dict }}
{{- range $name, $own := .Values.pools }}
{{- $pool := deepCopy $.Values.poolDefaults }}
{{- with $own.like }}
{{- $model := get $.Values.pools . | required (printf "pools.%s.like: there is no pool %s" $name .) }}
{{- if $model.like }}{{ fail (printf "pools.%s.like: %s is like another one itself; name that one" $name .) }}{{ end }}
{{- $pool = mergeOverwrite $pool (omit (deepCopy $model) "enabled") }}
{{- end }}
{{- $pool = mergeOverwrite $pool (omit (deepCopy $own) "like") }}
{{- if $pool.enabled }}{{ $_ := set $pools $name $pool }}{{ end }}
{{- end }}
{{- toJson $pools }}
{{- end }}

{{/* The image of a pool; takes the pool and the root. */}}
{{- define "telemetry.image" -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) .pool.image }}
{{- $repository := $image.repository | required "image.repository: say where you have pushed the image; there is no public one (docs/kubernetes.md)" }}
{{- if $image.digest }}{{ printf "%s@%s" $repository $image.digest }}
{{- else }}{{ printf "%s:%s" $repository (default .root.Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* telemetry.toml of a pool; takes the pool and the root. */}}
{{- define "telemetry.config" -}}
{{- $web := dict "listen_address" (list (printf ":%v" .root.Values.port)) }}
{{- if .root.Values.webSecretName }}{{ $_ := set $web "config_file" "/etc/telemetry-web/web.yml" }}{{ end }}
{{- $sources := dict }}
{{- if .pool.sources }}
{{- range .root.Files.Lines "files/sources.txt" }}
{{- if and . (not (has . $.pool.sources)) }}{{ $_ := set $sources . (dict "mode" "never") }}{{ end }}
{{- end }}
{{- end }}
{{- /* Everybody may write to an emptyDir, and the daemon uses no such folder: it makes these in it, for itself alone. */ -}}
{{- $state := dict "directory" "/var/lib/telemetry/state" "runtime_directory" "/run/telemetry/daemon" }}
{{- $attribution := dict }}
{{- with .pool.attribution }}
{{- if .enabled }}
{{- $attribution = dict "enabled" true "kubelet_socket" (printf "%s/kubelet.sock" (trimSuffix "/" .kubeletFolder)) }}
{{- if .jobFolder }}{{ $_ := set $attribution "job_directory" .jobFolder }}{{ end }}
{{- end }}
{{- end }}
{{- $table := mergeOverwrite (dict "web" $web "sources" $sources "state" $state "attribution" $attribution) (deepCopy .root.Values.config) (deepCopy .pool.config) }}
{{- $address := printf ":%v" .root.Values.port }}
{{- if not (has $address (default list $table.web.listen_address)) }}
{{- fail (printf "config.web.listen_address: probes and Prometheus ask at port; keep %q in the list, or leave the setting out" $address) }}
{{- end }}
{{- include "telemetry.toml" (dict "path" list "table" $table) }}
{{- end }}

{{/* A line for each setting, with its whole path. JSON's texts, numbers and lists are TOML's; helm's toToml would print
     every number with a point, and the daemon takes no 8.0 for a count. */}}
{{- define "telemetry.toml" -}}
{{- range $key, $value := .table }}
{{- $path := append $.path (ternary $key (toRawJson $key) (regexMatch "^[A-Za-z0-9_-]+$" $key)) }}
{{- if kindIs "map" $value }}
{{- include "telemetry.toml" (dict "path" $path "table" $value) }}
{{- else if not (kindIs "invalid" $value) }}
{{- printf "%s = %s\n" (join "." $path) (toRawJson $value) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "telemetry.podSecurityContext" -}}
{{- $context := dict "runAsUser" 0 "runAsGroup" 0 }}
{{- if not (or .privileged .attribution.enabled) }}
{{- $context = dict "runAsNonRoot" true "runAsUser" 65534 "runAsGroup" 65534 "fsGroup" 65534 }}
{{- end }}
{{- $_ := set $context "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- mergeOverwrite $context .podSecurityContext | toYaml }}
{{- end }}

{{- define "telemetry.securityContext" -}}
{{- $context := dict "privileged" true "readOnlyRootFilesystem" true }}
{{- if not .privileged }}
{{- $none := dict "drop" (list "ALL") }}
{{- $context = dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" $none }}
{{- end }}
{{- mergeOverwrite $context .securityContext | toYaml }}
{{- end }}

{{/* The files and folders of the node that a pool mounts, as a list under `paths`. */}}
{{- define "telemetry.hostPaths" -}}
{{- $paths := .hostPaths }}
{{- if .attribution.enabled }}
{{- $paths = append $paths (dict "name" "kubelet" "path" .attribution.kubeletFolder "type" "Directory") }}
{{- $paths = append $paths (dict "name" "pod-names" "path" "/var/log/pods" "type" "Directory") }}
{{- with .attribution.jobFolder }}
{{- $paths = append $paths (dict "name" "jobs" "path" . "type" "DirectoryOrCreate") }}
{{- end }}
{{- end }}
{{- dict "paths" $paths | toJson }}
{{- end }}

{{/* A probe of a path, or of the port where a password or a client certificate may be asked; takes probe, path and root. */}}
{{- define "telemetry.probe" -}}
{{- $port := dict "port" "metrics" }}
{{- $ask := dict "httpGet" (merge (dict "path" .path) $port) }}
{{- if .root.Values.webSecretName }}{{ $ask = dict "tcpSocket" $port }}{{ end }}
{{- mergeOverwrite $ask .probe | toYaml }}
{{- end }}

{{/* What the pods' affinity is: that of the values, and the nodes with one of the labels. */}}
{{- define "telemetry.affinity" -}}
{{- $affinity := dict }}
{{- $terms := list }}
{{- range .anyNodeLabel }}
{{- $is := dict "key" . "operator" "In" "values" (list "true") }}
{{- $terms = append $terms (dict "matchExpressions" (list $is)) }}
{{- end }}
{{- if $terms }}
{{- $required := dict "nodeSelectorTerms" $terms }}
{{- $_ := set $affinity "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" $required) }}
{{- end }}
{{- range $kind, $value := .affinity }}{{ $_ := set $affinity $kind $value }}{{ end }}
{{- with $affinity }}{{ toYaml . }}{{ end }}
{{- end }}
