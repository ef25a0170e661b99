{{/* The port of metrics and health. */}}
{{- define "wheelwright.port" -}}
{{ regexFind "[0-9]+$" .Values.listen }}
{{- end }}
