{{/*
The engine beside a worker, as init containers: the engine itself keeps running (a native sidecar:
it starts before the worker and ends after it), then the sandbox image is pulled into it.

The engine is the one exception from the restricted profile. It listens on a socket in a volume of
the pod, never on a port; sandboxes have no network, so it makes no bridge and no firewall rules.
The socket's group is 1000, one of the worker's supplemental groups.
*/}}
{{- define "sandpiper.engine" -}}
{{- if include "sandpiper.sidecar" . }}
{{- $sidecar := .Values.engine.sidecar -}}
{{- $rootless := eq $sidecar.kind "rootless" }}
- name: engine
  image: {{ include "sandpiper.engineImage" . }}
  restartPolicy: Always
  command:
    - dockerd-entrypoint.sh
    - dockerd
    - --host=unix:///engine/docker.sock
    - --data-root=/engine-data/docker
    # Rootless: group 0 of the engine's user namespace is gid 1000 of the pod.
    - --group={{ ternary "0" "1000" $rootless }}
    - --bridge=none
    - --iptables=false
    - --ip6tables=false
    {{- range $sidecar.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    - {name: DOCKER_TLS_CERTDIR, value: ""}
    - {name: DOCKER_HOST, value: "unix:///engine/docker.sock"}
    # The engine pulls images. What is set here is not passed on to sandboxes.
    {{- range $variable, $value := .Values.env }}
    {{- if has $variable (list "HTTP_PROXY" "HTTPS_PROXY" "NO_PROXY") }}
    - {name: {{ $variable }}, value: {{ include "sandpiper.text" $value | quote }}}
    {{- end }}
    {{- end }}
    {{- if .Values.caBundle.existingConfigMap }}
    - {name: SSL_CERT_FILE, value: /engine-ca/bundle.crt}
    {{- end }}
  securityContext:
    {{- if $sidecar.securityContext }}
    {{- toYaml $sidecar.securityContext | nindent 4 }}
    {{- else if $rootless }}
    # rootlesskit makes a user namespace and mounts /proc in it, which Kubernetes lets only a
    # privileged container do. It runs as uid 1000 all the same.
    privileged: true
    runAsNonRoot: true
    runAsUser: 1000
    runAsGroup: 1000
    {{- else }}
    privileged: true
    runAsNonRoot: false
    runAsUser: 0
    runAsGroup: 0
    {{- end }}
  startupProbe:
    exec: {command: [docker, version]}
    periodSeconds: 2
    timeoutSeconds: 5
    failureThreshold: 60
  livenessProbe:
    exec: {command: [docker, version]}
    periodSeconds: 30
    timeoutSeconds: 10
    failureThreshold: 4
  resources: {{ toYaml $sidecar.resources | nindent 4 }}
  volumeMounts:
    - {name: engine, mountPath: /engine}
    - {name: engine-data, mountPath: /engine-data}
    {{- if .Values.caBundle.existingConfigMap }}
    # Not below /etc, which a rootless engine replaces by a copy of its own.
    - {name: ca, mountPath: /engine-ca, readOnly: true}
    {{- end }}
- name: sandbox-image
  image: {{ include "sandpiper.engineImage" . }}
  command:
    - sh
    - -c
    - docker image inspect "$IMAGE" >/dev/null 2>&1 || docker pull --quiet "$IMAGE"
  env:
    - {name: IMAGE, value: {{ include "sandpiper.sandboxImage" . | quote }}}
    - {name: DOCKER_HOST, value: "unix:///engine/docker.sock"}
    {{- if $sidecar.registrySecret }}
    - {name: DOCKER_CONFIG, value: /etc/registry}
    {{- else }}
    - {name: DOCKER_CONFIG, value: /tmp}
    {{- end }}
  securityContext: {{ include "sandpiper.security" . | nindent 4 }}
  resources: {{ toYaml $sidecar.pull.resources | nindent 4 }}
  volumeMounts:
    - {name: engine, mountPath: /engine}
    - {name: engine-tmp, mountPath: /tmp}
    {{- if $sidecar.registrySecret }}
    - {name: registry, mountPath: /etc/registry, readOnly: true}
    {{- end }}
{{- end }}
{{- end }}

{{- define "sandpiper.engineImage" -}}
{{- $sidecar := .Values.engine.sidecar -}}
{{ $sidecar.image | default (ternary "docker:29-dind-rootless" "docker:29-dind" (eq $sidecar.kind "rootless")) }}
{{- end }}
