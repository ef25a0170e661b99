{{/* The port of an address. */}}
{{- define "wheelwright.port" -}}
{{ regexFind "[0-9]+$" . }}
{{- end }}
