"""What was redacted in a session's documents, in words: kinds and counts, never the secrets."""

from collections import Counter
from collections.abc import Mapping

Counts = tuple[tuple[str, int, str], ...]
"""How often each kind of secret (as in `redact.mark`) was redacted in each document: the kind, the
number, the document ("" if unknown); ordered by kind and document."""

_PROPER_NAMES = """
    AWS Airtable Alibaba Anthropic Artifactory Atlassian Azure Brevo Buildkite CircleCI Clojars
    Cloudflare Databricks DigitalOcean Docker Doppler Duffel Dynatrace EasyPost Figma
    Flutterwave GitHub GitLab Google Grafana Harness Heroku HubSpot Infracost Linear Mailchimp
    Mailgun MaxMind Netlify Notion NuGet Octopus OpenAI OpenShift PlanetScale Postman Prefect
    Pulumi PyPI ReadMe RubyGems Scalingo SendGrid Sentry Shippo Shopify Slack Snyk Sonar
    Sourcegraph Square Stripe Supabase Tailscale Telegram Terraform Twilio Typeform URL Vault
    Yandex
"""
_PROPER = tuple(_PROPER_NAMES.split())
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
    """Return the counts by kind and document as sorted `Counts`, without those that are zero."""
    return tuple(
        (kind, number, document) for (kind, document), number in sorted(found.items()) if number > 0
    )


def describe_counts(found: Counts) -> str:
    """Describe the counts as "2 GitLab tokens, 1 private key", over all documents; "" if empty."""
    total = Counter[str]()
    for kind, number, _ in found:
        total[kind] += number
    return ", ".join(
        f"{number} {' '.join(_NAMES.get(part, part) for part in kind.split('-'))}"
        f"{'s' * (number != 1)}"
        for kind, number in total.items()
    )


def group_by_document(found: Counts) -> tuple[tuple[str, Counts], ...]:
    """Return the documents, each with its own counts."""
    documents = sorted({document for _, _, document in found})
    return tuple((name, tuple(each for each in found if each[2] == name)) for name in documents)


def count_all(found: Counts) -> int:
    """Return how many secrets there were."""
    return sum(number for _, number, _ in found)
