{{- define "weir.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "weir.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "weir.shared" -}}
{{- if or .Values.redis.url .Values.redis.existingSecret }}yes{{ end }}
{{- end }}

{{- define "weir.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "weir.name" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{/* The port of the probes: behind a gateway the paths of the HTTP port are its own. */}}
{{- define "weir.probes" -}}
{{- if .Values.upstream }}admin{{ else }}http{{ end }}
{{- end }}

{{- define "weir.check" -}}
{{- if and .Values.upstream (not .Values.admin.existingSecret) }}
{{- fail "upstream needs admin.existingSecret: the probes are then on the admin port, which leaves loopback with a token alone" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.admin.existingSecret) }}
{{- fail "serviceMonitor needs admin.existingSecret: metrics are on the admin port, which leaves loopback with a token alone" }}
{{- end }}
{{- if and .Values.image.digest .Values.image.tag }}
{{- fail "image.digest and image.tag are both given: keep one" }}
{{- end }}
{{- if and .Values.redis.url .Values.redis.existingSecret }}
{{- fail "redis.url and redis.existingSecret are both given: keep one" }}
{{- end }}
{{- end }}
