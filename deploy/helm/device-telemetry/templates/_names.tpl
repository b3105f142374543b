{{- define "telemetry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for "-" and a pool's or a dashboard's name behind it. */}}
{{- define "telemetry.fullname" -}}
{{- $name := include "telemetry.name" . }}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $both .Values.fullnameOverride | trunc 38 | trimSuffix "-" }}
{{- end }}

{{- define "telemetry.serviceAccountName" -}}
{{- default (ternary (include "telemetry.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{/* The labels that select the pods of all pools of this release. */}}
{{- define "telemetry.selectorLabels" -}}
app.kubernetes.io/name: {{ include "telemetry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object; the chart's own count. */}}
{{- define "telemetry.labels" -}}
{{- $own := fromYaml (include "telemetry.selectorLabels" .) }}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion }}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- mergeOverwrite (deepCopy .Values.commonLabels) $own | toYaml }}
{{- end }}

{{/* Labels of a pool's pods: none that changes with the chart's version only. Takes the pool's name, the pool and the root. */}}
{{- define "telemetry.podLabels" -}}
{{- $own := fromYaml (include "telemetry.selectorLabels" .root) }}
{{- $_ := set $own "app.kubernetes.io/component" .name }}
{{- mergeOverwrite (deepCopy .root.Values.commonLabels) .pool.podLabels $own | toYaml }}
{{- end }}
