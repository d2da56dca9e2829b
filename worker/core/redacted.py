"""What was taken out of a session's documents, in words: kinds and counts, never the secrets."""

from collections.abc import Mapping, Sequence

Counts = tuple[tuple[str, int], ...]
"""Kinds of secrets as `redact.mark` names them, in their order, each with how many there were."""

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


def counts(found: Mapping[str, int]) -> Counts:
    """The same in an order of its own."""
    return tuple(sorted((kind, number) for kind, number in found.items() if number > 0))


def words(found: Sequence[tuple[str, int]]) -> str:
    """As "2 GitLab tokens, 1 private key"; "" for nothing."""
    return ", ".join(f"{number} {_name(kind)}{'s' * (number != 1)}" for kind, number in found)


def _name(kind: str) -> str:
    return " ".join(_NAMES.get(part, part) for part in kind.split("-"))
