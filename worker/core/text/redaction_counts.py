"""What was taken out of a session's documents, in words: kinds and counts, never the secrets."""

from collections import Counter
from collections.abc import Mapping

Counts = tuple[tuple[str, int, str], ...]
"""Kinds of secrets as `redact.mark` names them, each with how many there were in which document,
"" where that is not known; in the order of kinds and documents."""

_PROPER = (
    *("AWS", "Airtable", "Alibaba", "Anthropic", "Artifactory", "Atlassian", "Azure", "Brevo"),
    *("Buildkite", "CircleCI", "Clojars", "Cloudflare", "Databricks", "DigitalOcean", "Docker"),
    *("Doppler", "Duffel", "Dynatrace", "EasyPost", "Figma", "Flutterwave", "GitHub", "GitLab"),
    *("Google", "Grafana", "Harness", "Heroku", "HubSpot", "Infracost", "Linear", "Mailchimp"),
    *("Mailgun", "MaxMind", "Netlify", "Notion", "NuGet", "Octopus", "OpenAI", "OpenShift"),
    *("PlanetScale", "Postman", "Prefect", "Pulumi", "PyPI", "ReadMe", "RubyGems", "Scalingo"),
    *("SendGrid", "Sentry", "Shippo", "Shopify", "Slack", "Snyk", "Sonar", "Sourcegraph", "Square"),
    *("Stripe", "Supabase", "Tailscale", "Telegram", "Terraform", "Twilio", "Typeform", "URL"),
    *("Vault", "Yandex"),
)
_NAMES = {
    "authorization": "authorization header",
    "fly": "Fly.io",
    "frameio": "Frame.io",
    "huggingface": "Hugging Face",
    "jwt": "JSON web token",
    "newrelic": "New Relic",
    **{name.lower(): name for name in _PROPER},
}


def sort_counts(found: Mapping[tuple[str, str], int]) -> Counts:
    """What is known by kind and document, in its order."""
    return tuple(
        (kind, number, document) for (kind, document), number in sorted(found.items()) if number > 0
    )


def describe_counts(found: Counts) -> str:
    """As "2 GitLab tokens, 1 private key", wherever they were; "" for nothing."""
    total = Counter[str]()
    for kind, number, _ in found:
        total[kind] += number
    return ", ".join(
        f"{number} {_name(kind)}{'s' * (number != 1)}" for kind, number in total.items()
    )


def group_by_document(found: Counts) -> tuple[tuple[str, Counts], ...]:
    """The documents, each with what was in it."""
    documents = sorted({document for _, _, document in found})
    return tuple((name, tuple(each for each in found if each[2] == name)) for name in documents)


def count_all(found: Counts) -> int:
    """How many secrets there were."""
    return sum(number for _, number, _ in found)


def _name(kind: str) -> str:
    return " ".join(_NAMES.get(part, part) for part in kind.split("-"))
