{{/*
(list $ component container args resources engine? secrets optional?): the spec of a pod that runs one command
to its end as a worker would. `secrets` maps a variable to its key; they may be missing if `optional`.
*/}}
{{- define "sandpiper.run" -}}
{{- $top := index . 0 -}}{{- $engine := index . 5 -}}{{- $secrets := index . 6 -}}
{{- $own := $top.Values.worker -}}
{{ include "sandpiper.podSpec" $top }}
securityContext: {{ include "sandpiper.podSecurity" (list $top $engine) | nindent 2 }}
restartPolicy: Never
terminationGracePeriodSeconds: 60
{{- if $engine }}
{{- with include "sandpiper.engine" $top }}
initContainers: {{ . | nindent 2 }}
{{- end }}
{{- end }}
containers:
  - name: {{ index . 2 }}
    image: {{ include "sandpiper.image" $top }}
    imagePullPolicy: {{ $top.Values.image.pullPolicy }}
    args: {{ toYaml (index . 3) | nindent 6 }}
    env:
      {{- include "sandpiper.env" (list $top $secrets) | nindent 6 }}
      {{- if $engine }}
      {{- include "sandpiper.engineEnv" $top | nindent 6 }}
      {{- end }}
    securityContext: {{ include "sandpiper.security" $top | nindent 6 }}
    resources: {{ toYaml (index . 4) | nindent 6 }}
    volumeMounts: {{ include "sandpiper.mounts" (list $top $engine $own) | nindent 6 }}
volumes: {{ include "sandpiper.volumes" (list $top $secrets $engine $own (index . 7)) | nindent 2 }}
{{- include "sandpiper.placement" (list $top $own (index . 1)) }}
{{- end }}
