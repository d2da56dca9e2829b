{{/* Pods of the image: what they all have in common. */}}

{{/* (list $ component values): labels and annotations of a pod. */}}
{{- define "sandpiper.podMeta" -}}
{{- $top := index . 0 -}}{{- $name := index . 1 -}}{{- $own := index . 2 -}}
labels:
  {{- include "sandpiper.labels" (list $top $name) | nindent 2 }}
  {{- include "sandpiper.texts" $own.podLabels | nindent 2 }}
annotations:
  checksum/config: {{ printf "%s%s" (include "sandpiper.config" $top) (toYaml $top.Values.workflows) | sha256sum }}
  {{- include "sandpiper.texts" $own.podAnnotations | nindent 2 }}
{{- end }}

{{/* (list $ values component): where a pod may run. */}}
{{- define "sandpiper.placement" -}}
{{- $own := index . 1 -}}
{{- $selector := dict "matchLabels" (include "sandpiper.selector" (list (index . 0) (index . 2)) | fromYaml) }}
{{- with $own.nodeSelector }}
nodeSelector: {{ include "sandpiper.texts" . | nindent 2 }}
{{- end }}
{{- range $key := list "tolerations" "affinity" "priorityClassName" }}
{{- with get $own $key }}
{{ $key }}: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with $own.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- /* Without a selector a constraint counts no pods, and so spreads none. */}}
  - {{ toYaml (ternary . (merge (dict "labelSelector" $selector) .) (hasKey . "labelSelector")) | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The head of every pod's spec. */}}
{{- define "sandpiper.podSpec" -}}
serviceAccountName: {{ include "sandpiper.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* (list $ engine?): the pod's context. Group 1000 is that of the sidecar's socket. */}}
{{- define "sandpiper.podSecurity" -}}
{{- $context := deepCopy (index . 0).Values.podSecurityContext -}}
{{- if and (index . 1) (include "sandpiper.sidecar" (index . 0)) -}}
{{- $groups := get $context "supplementalGroups" | default list -}}
{{- $context = set $context "supplementalGroups" (append $groups 1000) -}}
{{- end -}}
{{ toJson $context }}
{{- end }}

{{/* The container's context: the restricted profile, and a root that cannot be written. */}}
{{- define "sandpiper.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* (list $ secrets): variables of a container; `secrets` maps a variable to its key. */}}
{{- define "sandpiper.env" -}}
{{- $top := index . 0 -}}{{- $v := $top.Values -}}
- {name: SANDPIPER_CONFIG, value: /etc/sandpiper/sandpiper.yaml}
- {name: SANDPIPER_STORE, value: {{ $v.store.url | quote }}}
{{- if $v.redis.enabled }}
- {name: SANDPIPER_BROKER, value: "redis://{{ include "sandpiper.fullname" $top }}-redis:6379/0"}
{{- else if $v.broker.existingSecret }}
- name: SANDPIPER_BROKER
  valueFrom: {secretKeyRef: {name: {{ $v.broker.existingSecret }}, key: {{ $v.broker.key }}}}
{{- else if $v.broker.url }}
- {name: SANDPIPER_BROKER, value: {{ $v.broker.url | quote }}}
{{- end }}
{{- with $v.store.endpoint }}
- {name: AWS_ENDPOINT_URL_S3, value: {{ . | quote }}}
{{- end }}
{{- with $v.store.region }}
- {name: AWS_REGION, value: {{ . | quote }}}
- {name: AWS_DEFAULT_REGION, value: {{ . | quote }}}
{{- end }}
{{- if $v.store.existingSecret }}
- {name: AWS_SHARED_CREDENTIALS_FILE, value: /etc/sandpiper/store/credentials}
{{- end }}
{{- if $v.caBundle.existingConfigMap }}
{{- range list "SSL_CERT_FILE" "REQUESTS_CA_BUNDLE" "AWS_CA_BUNDLE" }}
- {name: {{ . }}, value: /etc/sandpiper/ca/bundle.crt}
{{- end }}
{{- end }}
{{- range $variable, $key := include "sandpiper.secrets" . | fromYaml }}
- {name: {{ $variable }}_FILE, value: /etc/sandpiper/secrets/{{ $variable }}}
{{- end }}
{{- range $variable, $value := $v.env }}
- {name: {{ $variable }}, value: {{ include "sandpiper.text" $value | quote }}}
{{- end }}
{{- end }}

{{/* Variables that lead a worker to its engine. */}}
{{- define "sandpiper.engineEnv" -}}
{{- if include "sandpiper.sidecar" . }}
- {name: DOCKER_HOST, value: "unix:///engine/docker.sock"}
{{- else if eq .Values.engine.mode "external" }}
- {name: DOCKER_HOST, value: {{ .Values.engine.external.host | quote }}}
{{- if .Values.engine.external.tlsSecret }}
- {name: DOCKER_TLS_VERIFY, value: "1"}
- {name: DOCKER_CERT_PATH, value: /etc/sandpiper/engine}
{{- end }}
{{- end }}
{{- end }}

{{/* (list $ engine? values): mounts of a container. */}}
{{- define "sandpiper.mounts" -}}
{{- $v := (index . 0).Values -}}
- {name: config, mountPath: /etc/sandpiper/sandpiper.yaml, subPath: sandpiper.yaml, readOnly: true}
- {name: secrets, mountPath: /etc/sandpiper/secrets, readOnly: true}
- {name: tmp, mountPath: /tmp}
- {name: state, mountPath: /var/lib/sandpiper}
{{- if $v.workflows }}
- {name: workflows, mountPath: /etc/sandpiper/workflows, readOnly: true}
{{- end }}
{{- if $v.store.existingSecret }}
- {name: store, mountPath: /etc/sandpiper/store, readOnly: true}
{{- end }}
{{- if $v.caBundle.existingConfigMap }}
- {name: ca, mountPath: /etc/sandpiper/ca, readOnly: true}
{{- end }}
{{- if index . 1 }}
{{- if include "sandpiper.sidecar" (index . 0) }}
- {name: engine, mountPath: /engine}
{{- else if include "sandpiper.pods" (index . 0) }}
- {name: account, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- else if $v.engine.external.tlsSecret }}
- {name: engine, mountPath: /etc/sandpiper/engine, readOnly: true}
{{- end }}
{{- end }}
{{- with (index . 2).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
(list $ secrets engine? values optional?): volumes of a pod. With `optional` the pod starts although a
key is missing, so that the doctor can say so.
*/}}
{{- define "sandpiper.volumes" -}}
{{- $top := index . 0 -}}{{- $v := $top.Values -}}{{- $name := include "sandpiper.fullname" $top -}}
- name: config
  configMap: {name: {{ $name }}}
- name: secrets
  secret:
    secretName: {{ $v.secrets.existingSecret }}
    defaultMode: 0440
    {{- if index . 4 }}
    optional: true
    {{- end }}
    items:
      {{- range $variable, $key := include "sandpiper.secrets" . | fromYaml }}
      - {key: {{ $key | quote }}, path: {{ $variable }}}
      {{- end }}
{{- /* 512 MiB for each session at work. */}}
- name: tmp
  emptyDir: {sizeLimit: {{ mul 512 (max 2 (int $v.worker.concurrency)) }}Mi}
- name: state
  {{- if $v.store.persistence.enabled }}
  persistentVolumeClaim: {claimName: {{ $v.store.persistence.existingClaim | default (printf "%s-store" $name) }}}
  {{- else }}
  emptyDir: {sizeLimit: 1Gi}
  {{- end }}
{{- if $v.workflows }}
- name: workflows
  configMap: {name: {{ $name }}-workflows}
{{- end }}
{{- if $v.store.existingSecret }}
- name: store
  secret:
    secretName: {{ $v.store.existingSecret }}
    defaultMode: 0440
    {{- if index . 4 }}
    optional: true
    {{- end }}
    items: [{key: {{ $v.store.key | quote }}, path: credentials}]
{{- end }}
{{- if $v.caBundle.existingConfigMap }}
- name: ca
  configMap:
    name: {{ $v.caBundle.existingConfigMap }}
    items: [{key: {{ $v.caBundle.key | quote }}, path: bundle.crt}]
{{- end }}
{{- if index . 2 }}
{{- if include "sandpiper.sidecar" $top }}
- name: engine
  emptyDir: {sizeLimit: 1Mi}
- name: engine-data
  emptyDir: {sizeLimit: {{ $v.engine.sidecar.storage }}}
- name: engine-tmp
  emptyDir: {sizeLimit: 1Gi}
{{- if $v.engine.sidecar.registrySecret }}
- name: registry
  secret: {secretName: {{ $v.engine.sidecar.registrySecret }}, defaultMode: 0440, items: [{key: config.json, path: config.json}]}
{{- end }}
{{- else if include "sandpiper.pods" $top }}
# The token of what may start sandboxes, in these pods only.
- name: account
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- else if $v.engine.external.tlsSecret }}
- name: engine
  secret: {secretName: {{ $v.engine.external.tlsSecret }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- with (index . 3).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* (list $ secrets …): variables and their keys, without the default key of a provider that no model is of. */}}
{{- define "sandpiper.secrets" -}}
{{- $v := (index . 0).Values -}}
{{- $secrets := deepCopy (index . 1) -}}
{{- $models := get $v.config "models" | default dict -}}
{{- $named := printf "%s %s %s" (toJson $models) (toJson $v.workflows) (toJson $v.env) -}}
{{- if and (get $models "default") (not (regexMatch "(^|[^A-Za-z0-9._-])anthropic/|ANTHROPIC_API_KEY" $named)) (eq (get $secrets "ANTHROPIC_API_KEY") "ANTHROPIC_API_KEY") -}}
{{- $secrets = unset $secrets "ANTHROPIC_API_KEY" -}}
{{- end -}}
{{ toYaml $secrets }}
{{- end }}
