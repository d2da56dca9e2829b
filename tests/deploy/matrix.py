"""Values that the chart is rendered with: each feature on and off, alone and with others."""

from tests.deploy.chart import Values

PLACES: Values = {
    "gitlab": {"cidrs": ["203.0.113.7/32", "2001:db8::7/128"]},
    "models": {"cidrs": ["198.51.100.0/24"]},
    "store": {"cidrs": ["192.0.2.0/24"]},
    "registry": {"cidrs": ["203.0.113.8/32"]},
}
SECRETS: Values = {"secrets": {"existingSecret": "sandpiper"}, "networkPolicy": PLACES}
BUCKET: Values = {"store": {"url": "s3://bucket/team"}}
BASE: Values = {**SECRETS, **BUCKET, "redis": {"enabled": True}}
RABBIT: Values = {**SECRETS, **BUCKET, "broker": {"existingSecret": "rabbit", "key": "address"}}
ALONE: Values = {part: {"enabled": False} for part in ("receiver", "worker", "sweep")}
JOB: Values = {"enabled": True, "mergeRequest": "group/project!7"}
FOLDER = "file:///var/lib/sandpiper"
MONITORS: Values = {
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "serviceMonitor": {"enabled": True},
    "dashboards": {"enabled": True},
}
PROMETHEUS: Values = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
}
INGRESS: Values = {
    "enabled": True,
    "className": "nginx",
    "host": "sandpiper.example.com",
    "tlsSecret": "tls",
    "annotations": {"cert-manager.io/cluster-issuer": "letsencrypt"},
}
PLACED: Values = {
    "nodeSelector": {"pool": "untrusted"},
    "tolerations": [{"key": "untrusted", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "low",
    "podAnnotations": {"team": "ci"},
    "podLabels": {"team": "ci"},
}
EXTERNAL: Values = {
    "mode": "external",
    "external": {"host": "tcp://engine.example.com:2376", "tlsSecret": "engine-tls"},
}
NOT_CHOSEN: Values = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
"""Left to the cluster."""
VOLUMES = [{"name": "more", "configMap": {"name": "more"}}]
MOUNTS = [{"name": "more", "mountPath": "/etc/more", "readOnly": True}]
PAGES: Values = {"SANDPIPER_PAGE_SECRET": "page"}
CONFIG: Values = {
    "gitlab": {"url": "https://gitlab.example.com", "projects": ["group/*"]},
    "models": {
        "default": "openai-compatible/qwen3",
        "providers": {"openai-compatible": {"base_url": "http://llm:8000/v1"}},
    },
    "sandbox": {"image": "registry.example.com/sandbox:1", "memory": "1g"},
    "limits": {"wall_clock": 600.5, "context_tokens": 100000},
    "worker": {"grace": 100.5, "lease": 90},
    "pages": {"url": "https://sandpiper.example.com", "days": 7},
    "log": {"format": "json"},
    "metrics": {"enabled": True},
    "retention": {"days": 90},
}

LIMITED: Values = {"resources": {"limits": {"cpu": 0.5}}}
QUOTA: Values = {
    "receiver": LIMITED,
    "worker": LIMITED,
    "sweep": LIMITED,
    "redis": {"enabled": True, **LIMITED},
    "job": {**JOB, **LIMITED},
    "webhooks": {"fix": True},
    "config": {"gitlab": CONFIG["gitlab"], "pages": {"url": "https://sandpiper.example.com"}},
}
"""A CPU limit wherever none is by default, as a namespace's quota wants it."""

MATRIX: dict[str, Values] = {
    "least": BASE,
    "redis without a volume": {
        **BASE,
        "redis": {"enabled": True, "persistence": {"enabled": False}},
    },
    "a broker by url": {**SECRETS, **BUCKET, "broker": {"url": "redis://redis.example.com:6379/1"}},
    "a broker by secret": {
        **RABBIT,
        "networkPolicy": {**PLACES, "broker": {"cidrs": ["10.1.0.0/16"]}},
    },
    "another s3 server": {
        **BASE,
        "store": {
            "url": "s3://bucket",
            "endpoint": "https://s3.example.com",
            "region": "eu-central-1",
            "existingSecret": "s3",
            "key": "aws",
        },
    },
    "workload identity": {
        **BASE,
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/s"}},
        "networkPolicy": {**PLACES, "metadata": True},
    },
    "somebody's account": {**BASE, "serviceAccount": {"create": False, "name": "robot"}},
    "a folder": {
        **BASE,
        "store": {"url": FOLDER, "persistence": {"enabled": True, "storageClass": "nfs"}},
    },
    "somebody's folder": {
        **BASE,
        "store": {"url": FOLDER, "persistence": {"enabled": True, "existingClaim": "sessions"}},
    },
    "dind": {**BASE, "engine": {"sidecar": {"kind": "dind", "registrySecret": "pull"}}},
    "a context of one's own": {
        **BASE,
        "engine": {"sidecar": {"securityContext": {"privileged": False, "runAsUser": 1000}}},
    },
    "an engine outside": {
        **BASE,
        "engine": EXTERNAL,
        "networkPolicy": {**PLACES, "engine": {"cidrs": ["10.2.3.4/32"]}},
    },
    "an engine without tls": {
        **BASE,
        "engine": {"mode": "external", "external": {"host": "tcp://dind:2375", "insecure": True}},
    },
    "pods": {
        **BASE,
        "engine": {"mode": "pods"},
        "imagePullSecrets": [{"name": "pull"}],
        "networkPolicy": {**PLACES, "cluster": {"cidrs": ["10.0.0.1/32"], "ports": [6443]}},
    },
    "pods elsewhere": {
        **RABBIT,
        "engine": {"mode": "pods", "pods": {"namespace": "untrusted", "quota": 0}},
        "config": {
            "gitlab": CONFIG["gitlab"],
            "sandbox": {"runtime": "gvisor", "pull_secrets": ["theirs"]},
        },
        "job": JOB,
        "networkPolicy": {"enabled": False},
    },
    "one job alone": {**SECRETS, **ALONE, "store": {"url": FOLDER}, "job": JOB},
    "a job and a sweep": {
        **SECRETS,
        **BUCKET,
        **ALONE,
        "sweep": {"enabled": True, "hours": 1.5},
        "engine": EXTERNAL,
        "job": {**JOB, "pipeline": 1234567890, "workflow": "analyze-failures", "dryRun": True},
    },
    "webhooks": {**BASE, "webhooks": {"fix": True}, "receiver": {"ingress": INGRESS}},
    "receiver alone": {**BASE, "worker": {"enabled": False}, "receiver": {"ingress": INGRESS}},
    "worker alone": {**BASE, "receiver": {"enabled": False}, "worker": {"replicas": 3, **PLACED}},
    "keda on redis": {**BASE, "autoscaling": {"kind": "keda", "maxReplicas": 20}},
    "keda on rabbitmq": {
        **RABBIT,
        "autoscaling": {
            "kind": "keda",
            "keda": {"trigger": "rabbitmq", "authentication": "rabbit"},
        },
    },
    "hpa": {**BASE, "autoscaling": {"kind": "hpa"}},
    "monitors": {**BASE, "metrics": MONITORS},
    "a secret for each project": {
        **BASE,
        "secrets": {
            "existingSecret": "sandpiper",
            "receiver": {"GITLAB_WEBHOOK_KEY": "key", "GITLAB_WEBHOOK_SECRET": None},
        },
    },
    "read by Prometheus": {
        **BASE,
        "metrics": MONITORS,
        "networkPolicy": {**PLACES, "metricsFrom": [PROMETHEUS]},
    },
    "no metrics": {**BASE, "metrics": {**MONITORS, "port": 0}},
    "no network policies": {**RABBIT, "networkPolicy": {"enabled": False}},
    "a quota": {
        **BASE,
        **QUOTA,
        "secrets": {"existingSecret": "sandpiper", "receiver": PAGES, "worker": PAGES},
    },
    "openshift": {
        **BASE,
        "engine": EXTERNAL,
        "podSecurityContext": NOT_CHOSEN,
        "redis": {"enabled": True, "podSecurityContext": NOT_CHOSEN},
        "networkPolicy": {
            **PLACES,
            "dns": [
                {
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}
                    }
                }
            ],
            "dnsPorts": [5353],
        },
    },
    "another provider": {
        **BASE,
        "config": {"gitlab": CONFIG["gitlab"], "models": {"default": "gemini/gemini-3-flash"}},
    },
    "volumes of one's own": {
        **BASE,
        "worker": {"extraVolumes": VOLUMES, "extraVolumeMounts": MOUNTS},
        "receiver": {"extraVolumes": VOLUMES, "extraVolumeMounts": MOUNTS},
    },
    "closed": {
        **BASE,
        "networkPolicy": {
            "gitlab": {"cidrs": ["10.0.0.5/32"], "ports": [8443]},
            "models": {"cidrs": [], "ports": []},
            "store": {"cidrs": ["10.0.0.7/32"], "ports": [9000]},
            "registry": {"cidrs": ["10.0.0.9/32"], "ports": [5000]},
            "engine": {"cidrs": ["10.0.0.11/32"], "ports": [2376]},
            "receiverFrom": [{"ipBlock": {"cidr": "10.0.0.5/32"}}],
            "metricsFrom": [],
        },
    },
    "everything": {
        **BASE,
        "fullnameOverride": "explainer",
        "image": {"repository": "registry.example.com/s", "digest": f"sha256:{'0' * 64}"},
        "imagePullSecrets": [{"name": "pull"}],
        "config": CONFIG,
        "workflows": {"analyze-failures.md": "---\nname: analyze-failures\n---\nLook.\n"},
        "caBundle": {"existingConfigMap": "ca"},
        "env": {"HTTPS_PROXY": "http://proxy:3128"},
        "receiver": {"ingress": INGRESS, **PLACED},
        "worker": PLACED,
        "autoscaling": {"kind": "keda"},
        "metrics": MONITORS,
        "job": JOB,
        "secrets": {
            "existingSecret": "sandpiper",
            "receiver": {**PAGES, "SANDPIPER_OPERATOR_TOKEN": "operator"},
            "worker": PAGES,
        },
        "webhooks": {"fix": True, "setupTokenKey": "setup"},
    },
}
