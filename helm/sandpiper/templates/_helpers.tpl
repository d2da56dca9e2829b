{{- define "sandpiper.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "sandpiper.fullname" -}}
{{- $name := include "sandpiper.name" . -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/* (list $ component): what selects the pods of a component. */}}
{{- define "sandpiper.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: {{ include "sandpiper.name" $top }}
app.kubernetes.io/instance: {{ $top.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* (list $ component): the labels of every object. */}}
{{- define "sandpiper.labels" -}}
{{- $top := index . 0 -}}
{{ include "sandpiper.selector" . }}
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sandpiper.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ include "sandpiper.text" ($image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end }}

{{- define "sandpiper.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "sandpiper.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{/* The account of the bundled Redis: one that nothing is granted to. */}}
{{- define "sandpiper.redisAccount" -}}
{{- if .Values.redis.serviceAccountName -}}
{{ .Values.redis.serviceAccountName }}
{{- else if .Values.serviceAccount.create -}}
{{ include "sandpiper.fullname" . }}-redis
{{- else -}}
default
{{- end -}}
{{- end }}

{{/* A value as text: a number as it was written, so that --set may give one. */}}
{{- define "sandpiper.text" -}}
{{- if kindIs "float64" . }}{{ toJson . }}{{ else }}{{ . }}{{ end -}}
{{- end }}

{{/* A map of which every value is text, as labels and annotations are. */}}
{{- define "sandpiper.texts" -}}
{{- range $name, $value := . }}
{{ $name }}: {{ include "sandpiper.text" $value | quote }}
{{- end }}
{{- end }}

{{/* "true" where each worker pod has an engine of its own. */}}
{{- define "sandpiper.sidecar" -}}
{{- if eq .Values.engine.mode "sidecar" }}true{{ end -}}
{{- end }}

{{/* "true" where each sandbox is a pod. */}}
{{- define "sandpiper.pods" -}}
{{- if eq .Values.engine.mode "pods" }}true{{ end -}}
{{- end }}

{{/* "true" where a queue is set; without one, commands do all the work themselves. */}}
{{- define "sandpiper.queue" -}}
{{- if or .Values.redis.enabled .Values.broker.url .Values.broker.existingSecret }}true{{ end -}}
{{- end }}

{{/* sandpiper.yaml: values.config, and what follows from the other values. */}}
{{- define "sandpiper.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if and (include "sandpiper.sidecar" .) (eq .Values.engine.sidecar.kind "rootless") -}}
{{- $sandbox := get $config "sandbox" | default dict -}}
{{- $config = set $config "sandbox" (merge (dict "shared_limits" true) $sandbox) -}}
{{- end -}}
{{- if include "sandpiper.pods" . -}}
{{- $sandbox := get $config "sandbox" | default dict -}}
{{- $own := dict "driver" "kubernetes" "namespace" (.Values.engine.pods.namespace | default .Release.Namespace) -}}
{{- with .Values.imagePullSecrets -}}
{{- $names := list -}}
{{- range . }}{{ $names = append $names .name }}{{ end -}}
{{- $sandbox = merge $sandbox (dict "pull_secrets" $names) -}}
{{- end -}}
{{- $config = set $config "sandbox" (merge $own $sandbox) -}}
{{- end -}}
{{- if .Values.workflows -}}
{{- $config = set $config "workflows" "/etc/sandpiper/workflows" -}}
{{- end -}}
{{ toYaml $config }}
{{- end }}

{{/* Seconds a worker takes to end its runs after it was told to stop: its own setting. */}}
{{- define "sandpiper.grace" -}}
{{- $worker := get .Values.config "worker" | default dict -}}
{{ get $worker "grace" | default 60 | ceil | int }}
{{- end }}

{{/* Seconds that one run may take: the product's own limit. */}}
{{- define "sandpiper.wallClock" -}}
{{- $limits := get .Values.config "limits" | default dict -}}
{{ get $limits "wall_clock" | default 900 | ceil | int }}
{{- end }}

{{- define "sandpiper.sandboxImage" -}}
{{- $sandbox := get .Values.config "sandbox" | default dict -}}
{{ get $sandbox "image" | default "sandpiper-sandbox:latest" }}
{{- end }}

{{/* Where GitLab and browsers reach the receiver; empty where config.pages.url says it, or nothing. */}}
{{- define "sandpiper.url" -}}
{{- $own := .Values.receiver.ingress -}}
{{- if and .Values.receiver.enabled $own.enabled -}}
http{{ if $own.tlsSecret }}s{{ end }}://{{ $own.host }}
{{- end -}}
{{- end }}

{{/* (list $ secret keys): what of it is not there, a line each. Only an installation can look. */}}
{{- define "sandpiper.missingKeys" -}}
{{- $name := index . 1 -}}
{{- $found := lookup "v1" "Secret" (index . 0).Release.Namespace $name -}}
{{- if not $found }}
- the Secret {{ $name }} (a dry run without the cluster cannot look)
{{- else }}
{{- range index . 2 | uniq | sortAlpha }}
{{- if not (hasKey ($found.data | default dict) .) }}
- the key {{ . }} of the Secret {{ $name }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What is not there of all Secrets that the pods mount, a line each. */}}
{{- define "sandpiper.missing" -}}
{{- $v := .Values -}}
{{- $keys := list -}}
{{- if $v.receiver.enabled }}{{ $keys = concat $keys (values (include "sandpiper.secrets" (list . $v.secrets.receiver) | fromYaml)) }}{{ end -}}
{{- if or $v.worker.enabled $v.sweep.enabled $v.job.enabled }}{{ $keys = concat $keys (values (include "sandpiper.secrets" (list . $v.secrets.worker) | fromYaml)) }}{{ end -}}
{{- if and $v.webhooks.fix $v.webhooks.setupTokenKey }}{{ $keys = append $keys $v.webhooks.setupTokenKey }}{{ end -}}
{{- include "sandpiper.missingKeys" (list . $v.secrets.existingSecret $keys) -}}
{{- with $v.store.existingSecret }}{{ include "sandpiper.missingKeys" (list $ . (list $v.store.key)) }}{{ end -}}
{{- with $v.broker.existingSecret }}{{ include "sandpiper.missingKeys" (list $ . (list $v.broker.key)) }}{{ end -}}
{{- if include "sandpiper.sidecar" . -}}
{{- with $v.engine.sidecar.registrySecret }}{{ include "sandpiper.missingKeys" (list $ . (list "config.json")) }}{{ end -}}
{{- else if eq $v.engine.mode "external" -}}
{{- with $v.engine.external.tlsSecret }}{{ include "sandpiper.missingKeys" (list $ . (list "ca.pem" "cert.pem" "key.pem")) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* What cannot be said in a schema. */}}
{{- define "sandpiper.checks" -}}
{{- $v := .Values -}}
{{- $runs := or $v.receiver.enabled $v.worker.enabled -}}
{{- range $key := list "broker" "store" "workflows" -}}
{{- if hasKey $v.config $key }}{{ fail (printf "config.%s: set the value `%s` of the chart instead" $key $key) }}{{ end -}}
{{- end -}}
{{- if not $v.secrets.existingSecret -}}
{{ fail "secrets.existingSecret: name a Secret with the tokens, see the README of the chart" }}
{{- end -}}
{{- if not $v.store.url }}{{ fail "store.url: expected s3://bucket/prefix or file:///var/lib/sandpiper" }}{{ end -}}
{{- if and (hasPrefix "file://" $v.store.url) (not $v.store.persistence.enabled) (not (and $v.job.enabled (not $runs))) -}}
{{ fail "store.persistence.enabled: a store file://… has to outlive the pods; enable it, or use s3://…" }}
{{- end -}}
{{- if and $v.store.persistence.enabled (ne $v.store.url "file:///var/lib/sandpiper") -}}
{{ fail "store.url: with store.persistence it has to be file:///var/lib/sandpiper" }}
{{- end -}}
{{- $brokers := len (compact (list $v.broker.url $v.broker.existingSecret (ternary "redis" "" $v.redis.enabled))) -}}
{{- if and $runs (ne $brokers 1) -}}
{{ fail "broker: set exactly one of redis.enabled, broker.url and broker.existingSecret" }}
{{- end -}}
{{- if and $v.redis.enabled (not $v.networkPolicy.enabled) -}}
{{ fail "redis.enabled: this Redis has no password and needs networkPolicy.enabled; or bring a Redis of yours by broker.existingSecret" }}
{{- end -}}
{{- if and (eq $v.engine.mode "external") (not $v.engine.external.host) -}}
{{ fail "engine.external.host: expected tcp://host:2376" }}
{{- end -}}
{{- if and (eq $v.engine.mode "external") (not $v.engine.external.tlsSecret) (not $v.engine.external.insecure) -}}
{{ fail "engine.external.tlsSecret: whoever reaches an engine without TLS is root on its host; name a Secret with ca.pem, cert.pem and key.pem" }}
{{- end -}}
{{- $sandbox := get $v.config "sandbox" | default dict -}}
{{- range $key := list "driver" "namespace" -}}
{{- if and (eq $v.engine.mode "pods") (hasKey $sandbox $key) }}{{ fail (printf "config.sandbox.%s: engine.mode and engine.pods.namespace say it" $key) }}{{ end -}}
{{- end -}}
{{- $pages := get $v.config "pages" | default dict -}}
{{- $signed := list -}}
{{- range $part := list "receiver" "worker" -}}
{{- if hasKey (get $v.secrets $part) "SANDPIPER_PAGE_SECRET" }}{{ $signed = append $signed $part }}{{ end -}}
{{- end -}}
{{- if and $v.receiver.enabled (eq (len $signed) 1) -}}
{{ fail (printf "secrets.%s: SANDPIPER_PAGE_SECRET has to be the same for receiver and worker; name it in both, or in neither" (first $signed)) }}
{{- end -}}
{{- $metrics := get $v.config "metrics" | default dict -}}
{{- if and $v.metrics.port (eq (get $metrics "enabled" | toString) "false") -}}
{{ fail "metrics.port: with config.metrics.enabled false nothing answers there, which probes would take for a dead worker; set it to 0" }}
{{- end -}}
{{- if and $v.webhooks.fix (not (include "sandpiper.url" .)) (not (get $pages "url")) -}}
{{ fail "webhooks.fix: the webhooks need an address; enable receiver.ingress, or set config.pages.url" }}
{{- end -}}
{{- if and $v.job.enabled (not $v.job.mergeRequest) -}}
{{ fail "job.mergeRequest: expected a URL, or group/project!iid" }}
{{- end -}}
{{- if and $v.receiver.enabled $v.receiver.ingress.enabled (not $v.receiver.ingress.host) -}}
{{ fail "receiver.ingress.host: expected the host name that GitLab will call" }}
{{- end -}}
{{- if and (eq $v.autoscaling.kind "keda") (eq $v.autoscaling.keda.trigger "redis") (not $v.redis.enabled) (not $v.autoscaling.keda.address) -}}
{{ fail "autoscaling.keda.address: expected host:port of the Redis that is the broker" }}
{{- end -}}
{{- if and (eq $v.autoscaling.kind "keda") (eq $v.autoscaling.keda.trigger "rabbitmq") (not $v.autoscaling.keda.authentication) -}}
{{ fail "autoscaling.keda.authentication: RabbitMQ's address is in a TriggerAuthentication, as `host`" }}
{{- end -}}
{{- if gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas) -}}
{{ fail "autoscaling.minReplicas is more than autoscaling.maxReplicas" }}
{{- end -}}
{{- end }}
