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

{{/* The secrets of the Job: a dry run posts nothing, and needs no token to write with. */}}
{{- define "sandpiper.jobSecrets" -}}
{{- $secrets := .Values.secrets.worker -}}
{{- if .Values.job.dryRun }}{{ $secrets = omit $secrets "GITLAB_WRITE_TOKEN" }}{{ end -}}
{{- $secrets | toYaml -}}
{{- end }}

{{/* What is not there of all Secrets that the pods mount, a line each. */}}
{{- define "sandpiper.missing" -}}
{{- $v := .Values -}}
{{- $keys := list -}}
{{- if $v.receiver.enabled }}{{ $keys = concat $keys (values (include "sandpiper.secrets" (list . $v.secrets.receiver) | fromYaml)) }}{{ end -}}
{{- $works := or $v.worker.enabled $v.sweep.enabled (and $v.job.enabled (not $v.job.dryRun)) -}}
{{- $worker := ternary $v.secrets.worker (include "sandpiper.jobSecrets" . | fromYaml) $works -}}
{{- if or $works $v.job.enabled }}{{ $keys = concat $keys (values (include "sandpiper.secrets" (list . $worker) | fromYaml)) }}{{ end -}}
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

{{/*
What cannot be said in a schema: all that is missing or wrong, in one message. `helm lint` goes on
after `fail`, but not after a template that is not there, and names it.
*/}}
{{- define "sandpiper.checks" -}}
{{- $v := .Values -}}
{{- $wrong := list -}}
{{- $runs := or $v.receiver.enabled $v.worker.enabled -}}
{{- range $key := list "broker" "store" "workflows" -}}
{{- if hasKey $v.config $key }}{{ $wrong = append $wrong (printf "config.%s: set the value `%s` of the chart instead" $key $key) }}{{ end -}}
{{- end -}}
{{- if not $v.secrets.existingSecret -}}
{{ $wrong = append $wrong "secrets.existingSecret: name a Secret with the tokens, see the README of the chart" }}
{{- end -}}
{{- if not $v.store.url }}{{ $wrong = append $wrong "store.url: expected s3://bucket/prefix or file:///var/lib/sandpiper" }}{{ end -}}
{{- if and (hasPrefix "file://" $v.store.url) (not $v.store.persistence.enabled) (not (and $v.job.enabled (not $runs))) -}}
{{ $wrong = append $wrong "store.persistence.enabled: a store file://… has to outlive the pods; enable it, or use s3://…" }}
{{- end -}}
{{- if and $v.store.persistence.enabled (ne $v.store.url "file:///var/lib/sandpiper") -}}
{{ $wrong = append $wrong "store.url: with store.persistence it has to be file:///var/lib/sandpiper" }}
{{- end -}}
{{- $brokers := len (compact (list $v.broker.url $v.broker.existingSecret (ternary "redis" "" $v.redis.enabled))) -}}
{{- if and $runs (ne $brokers 1) -}}
{{ $wrong = append $wrong "broker: set exactly one of redis.enabled, broker.url and broker.existingSecret" }}
{{- end -}}
{{- if and $v.redis.enabled (not $v.networkPolicy.enabled) -}}
{{ $wrong = append $wrong "redis.enabled: this Redis has no password and needs networkPolicy.enabled; or bring a Redis of yours by broker.existingSecret" }}
{{- end -}}
{{- if and (eq $v.engine.mode "external") (not $v.engine.external.host) -}}
{{ $wrong = append $wrong "engine.external.host: expected tcp://host:2376" }}
{{- end -}}
{{- if and (eq $v.engine.mode "external") (not $v.engine.external.tlsSecret) (not $v.engine.external.insecure) -}}
{{ $wrong = append $wrong "engine.external.tlsSecret: whoever reaches an engine without TLS is root on its host; name a Secret with ca.pem, cert.pem and key.pem" }}
{{- end -}}
{{- $sandbox := get $v.config "sandbox" | default dict -}}
{{- range $key := list "driver" "namespace" -}}
{{- if and (eq $v.engine.mode "pods") (hasKey $sandbox $key) }}{{ $wrong = append $wrong (printf "config.sandbox.%s: engine.mode and engine.pods.namespace say it" $key) }}{{ end -}}
{{- end -}}
{{- $pages := get $v.config "pages" | default dict -}}
{{- $signed := list -}}
{{- range $part := list "receiver" "worker" -}}
{{- if hasKey (get $v.secrets $part) "SANDPIPER_PAGE_SECRET" }}{{ $signed = append $signed $part }}{{ end -}}
{{- end -}}
{{- if and $v.receiver.enabled (eq (len $signed) 1) -}}
{{ $wrong = append $wrong (printf "secrets.%s: SANDPIPER_PAGE_SECRET has to be the same for receiver and worker; name it in both, or in neither" (first $signed)) }}
{{- end -}}
{{- $metrics := get $v.config "metrics" | default dict -}}
{{- if and $v.metrics.port (eq (get $metrics "enabled" | toString) "false") -}}
{{ $wrong = append $wrong "metrics.port: with config.metrics.enabled false nothing answers there, which probes would take for a dead worker; set it to 0" }}
{{- end -}}
{{- if and $v.webhooks.fix (not (include "sandpiper.url" .)) (not (get $pages "url")) -}}
{{ $wrong = append $wrong "webhooks.fix: the webhooks need an address; enable receiver.ingress, or set config.pages.url" }}
{{- end -}}
{{- if and $v.job.enabled (not $v.job.mergeRequest) -}}
{{ $wrong = append $wrong "job.mergeRequest: expected a URL, or group/project!iid" }}
{{- end -}}
{{- if and $v.receiver.enabled $v.receiver.ingress.enabled (not $v.receiver.ingress.host) -}}
{{ $wrong = append $wrong "receiver.ingress.host: expected the host name that GitLab will call" }}
{{- end -}}
{{- if and (eq $v.autoscaling.kind "keda") (eq $v.autoscaling.keda.trigger "redis") (not $v.redis.enabled) (not $v.autoscaling.keda.address) -}}
{{ $wrong = append $wrong "autoscaling.keda.address: expected host:port of the Redis that is the broker" }}
{{- end -}}
{{- if and (eq $v.autoscaling.kind "keda") (eq $v.autoscaling.keda.trigger "rabbitmq") (not $v.autoscaling.keda.authentication) -}}
{{ $wrong = append $wrong "autoscaling.keda.authentication: RabbitMQ's address is in a TriggerAuthentication, as `host`" }}
{{- end -}}
{{- if gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas) -}}
{{ $wrong = append $wrong "autoscaling.minReplicas is more than autoscaling.maxReplicas" }}
{{- end -}}
{{- $closed := list -}}
{{- range $way := include "sandpiper.workerWays" . | fromYamlArray -}}
{{- if and (kindIs "invalid" (get $v.networkPolicy $way).cidrs) (not (and (eq $way "store") (hasPrefix "file://" $v.store.url))) -}}
{{- $closed = append $closed (printf "networkPolicy.%s.cidrs" $way) -}}
{{- end -}}
{{- end -}}
{{- if and $v.networkPolicy.enabled $closed (not $v.networkPolicy.anywhere) -}}
{{ $wrong = append $wrong (printf "%s: name the addresses, like [203.0.113.7/32] ([]: none), or set networkPolicy.anywhere to open their ports to every address" (join ", " $closed)) }}
{{- end -}}
{{- if $wrong -}}
{{- $said := ternary (first $wrong) (printf "%d values are missing or wrong:\n  %s" (len $wrong) (join "\n  " $wrong)) (eq (len $wrong) 1) -}}
{{- fail $said -}}
{{- include ($said | replace ":\n  " ": " | replace "\n  " "; ") . -}}
{{- end -}}
{{- end }}

{{/* Where a worker connects to: names of networkPolicy's ways, as a list. */}}
{{- define "sandpiper.workerWays" -}}
{{ toJson (list "gitlab" "models" "store" "broker" "sources" (get (dict "sidecar" "registry" "external" "engine" "pods" "cluster") .Values.engine.mode)) }}
{{- end }}
