"""Shapes of secrets, and of what only looks like one: half and half."""

from collections.abc import Iterator

from tests.attacks.redaction import (
    ALNUM,
    BASE64,
    HEX,
    LOWER,
    UPPER,
    URLSAFE,
    encode_base64,
)
from tests.attacks.redaction import make_random as made

Case = tuple[str, str]
"""A line, and the secret in it."""

TOKENS: tuple[tuple[str, str, int], ...] = (
    *(
        (prefix, URLSAFE, 20)
        for prefix in (
            *("glpat-", "gldt-", "glrt-", "glcbt-64_", "glft-", "glimt-", "glsoat-", "glffct-"),
            *("glwt-", "gldp-", "glagent-", "gloas-", "GR1348941"),
        )
    ),
    ("glptt-", HEX, 40),
    ("sk-ant-api03-", URLSAFE, 95),
    ("sk-ant-admin01-", URLSAFE, 95),
    ("sk-proj-", URLSAFE, 90),
    ("sk-svcacct-", URLSAFE, 80),
    ("sk-", ALNUM, 48),
    ("sk-", HEX, 32),
    ("sk-or-v1-", HEX, 64),
    ("gsk_", ALNUM, 52),
    ("xai-", ALNUM, 80),
    ("pplx-", ALNUM, 48),
    ("nvapi-", URLSAFE, 64),
    ("lsv2_pt_", HEX, 43),
    ("r8_", ALNUM, 37),
    ("AIza", URLSAFE, 35),
    ("AQ.", URLSAFE, 50),
    ("GOCSPX-", URLSAFE, 28),
    ("ya29.", URLSAFE, 80),
    ("1//0", URLSAFE, 90),
    ("LTAI", ALNUM, 20),
    ("AKIA", UPPER, 16),
    ("ASIA", UPPER, 16),
    ("ghp_", ALNUM, 36),
    ("gho_", ALNUM, 36),
    ("ghs_", ALNUM, 36),
    ("github_pat_", ALNUM, 82),
    ("xoxb-", UPPER, 40),
    ("xoxp-", UPPER, 40),
    ("xoxe.xoxp-1-", UPPER, 160),
    ("xapp-1-", UPPER, 60),
    ("whsec_", ALNUM, 32),
    ("sk_live_", ALNUM, 24),
    ("rk_live_", ALNUM, 24),
    ("sk_test_", ALNUM, 24),
    ("npm_", ALNUM, 36),
    ("pypi-AgEI", ALNUM, 120),
    ("rubygems_", HEX, 48),
    ("oy2", LOWER, 43),
    ("hf_", ALNUM, 34),
    ("dckr_pat_", URLSAFE, 27),
    ("hvs.", URLSAFE, 92),
    ("hvb.", URLSAFE, 140),
    ("sqp_", HEX, 40),
    ("squ_", HEX, 40),
    ("dop_v1_", HEX, 64),
    ("doo_v1_", HEX, 64),
    ("shpat_", HEX, 32),
    ("shpss_", HEX, 32),
    ("glsa_", ALNUM, 41),
    ("glc_", ALNUM, 80),
    ("eyJrIjoi", ALNUM, 80),
    ("ATATT3", URLSAFE, 180),
    ("ATBB", ALNUM, 32),
    ("dapi", HEX, 32),
    ("NRAK-", UPPER, 27),
    ("NRII-", ALNUM, 32),
    ("PMAK-", HEX, 59),
    ("lin_api_", ALNUM, 40),
    ("ntn_", ALNUM, 46),
    ("pscale_tkn_", URLSAFE, 43),
    ("pnu_", ALNUM, 36),
    ("pul-", HEX, 40),
    ("rdme_", LOWER, 70),
    ("xkeysib-", HEX, 64),
    ("sntryu_", HEX, 64),
    ("sgp_", HEX, 40),
    ("sq0atp-", URLSAFE, 22),
    ("SK", HEX, 32),
    ("key-", HEX, 32),
    ("dp.pt.", ALNUM, 43),
    ("EZAK", ALNUM, 54),
    ("duffel_live_", URLSAFE, 43),
    ("FLWSECK_TEST-", HEX, 32),
    ("fm2_", BASE64, 120),
    ("fio-u-", URLSAFE, 64),
    ("HRKU-AA", URLSAFE, 58),
    ("ico-", ALNUM, 32),
    ("AKCp", ALNUM, 69),
    ("ops_eyJ", ALNUM, 260),
    ("pat-na1-", HEX, 36),
    ("sha256~", URLSAFE, 43),
    ("sbp_", HEX, 40),
    ("figd_", URLSAFE, 43),
    ("tskey-auth-", ALNUM, 17),
    ("bkua_", HEX, 40),
    ("CCIPAT_", ALNUM, 40),
    ("API-", UPPER, 26),
    ("shippo_live_", HEX, 40),
    ("nfp_", ALNUM, 40),
    ("CLOJARS_", LOWER, 60),
    ("AGE-SECRET-KEY-1", UPPER, 58),
    ("dt0c01." + made(UPPER, 24) + ".", UPPER, 64),
    ("SG." + made(URLSAFE, 22) + ".", URLSAFE, 43),
    ("pat" + made(ALNUM, 14) + ".", HEX, 64),
)
"""What tokens begin with, and what follows: of which characters, and how many."""


def _tokens() -> Iterator[Case]:
    for prefix, alphabet, size in TOKENS:
        body = made(alphabet, size).replace("-", "x", 1) if size < 25 else made(alphabet, size)
        if prefix.startswith("tskey"):
            body += "-" + made(ALNUM, 32)
        yield f"using {prefix}{body} for this", prefix + body


_JWT = ".".join(
    encode_base64(part).rstrip("=") for part in ('{"alg":"HS256"}', '{"sub":"1234567"}')
)
JWT = f"{_JWT}.{made(URLSAFE, 43)}"
_JWE = encode_base64('{"alg":"RSA-OAEP","enc":"A256GCM"}').rstrip("=") + "".join(
    f".{made(URLSAFE, size)}" for size in (342, 16, 80, 22)
)
_PASSWORD = "Tr0ub" + "4dor&3"
_WORDS = "corr3ct-" + "horse-b4ttery"
_RANDOM = made(ALNUM, 24)
_KEY40 = made(BASE64, 38) + "Q7"
_UUID = "-".join(made(HEX, size) for size in (8, 4, 4, 4, 12))

_SHAPED: tuple[Case, ...] = (
    (f"got {JWT}", JWT),
    (f"session_{JWT}", JWT),
    (f"jwe: {_JWE}", _JWE),
    (f"{made(LOWER, 3)}8Q~{made(URLSAFE, 34)}", made(URLSAFE, 34)),
    (f"bot{made('123456789', 10)}:AA{made(URLSAFE, 33)}/sendMessage", made(URLSAFE, 33)),
    (f"{made(ALNUM, 14)}.atlasv1.{made(ALNUM, 67)}", made(ALNUM, 67)),
    (f"mail: {made(HEX, 32)}-us12", made(HEX, 32)),
    (f"geo {made(ALNUM, 6)}_{made(ALNUM, 29)}_mmk", made(ALNUM, 29)),
)

_URLS: tuple[Case, ...] = (
    (f"https://{_RANDOM}@host.example.com/group/project.git", _RANDOM),
    (f"https://{_RANDOM}:@host.example.com/x", _RANDOM),
    (f"https://{_RANDOM}:x-oauth-basic@host.example.com/x", _RANDOM),
    (f"git clone https://ci:{_PASSWORD}@host/x", _PASSWORD),
    (f"https://oauth2:{_RANDOM}@host/x.git", _RANDOM),
    ("postgres://app:ab/cd/EF12gh@db:5432/app", "ab/cd/EF12gh"),
    ("postgresql://app:/startswith1Slash@db.internal/app", "/startswith1Slash"),
    ("mongodb+srv://user:p%40ss%2Fw0rd1@cluster0.example.net/db", "p%40ss%2Fw0rd1"),
    ("redis://:" + "letmein9876@cache:6379/0", "letmein9876"),
    ("amqp://guest1:" + "gue5t@p4ss@rabbit/vhost", "gue5t@p4ss"),
    ("https://u:*5tarFirst@host/x", "*5tarFirst"),
    ("https://u:{br4ce@host/x", "{br4ce"),
    ("ftp://bob:example-secret-1@files.example.org/", "example-secret-1"),
    (
        f"https://x.blob.core.windows.net/c/f?sv=2022-11-02&sig={made(ALNUM, 40)}%2Bab%3D",
        made(ALNUM, 40),
    ),
    (
        f"Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey={made(BASE64, 43)}=",
        made(BASE64, 43),
    ),
    (
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={made(BASE64, 86)}==",
        made(BASE64, 86),
    ),
    (f"https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature={made(HEX, 64)}", made(HEX, 64)),
    (f"https://storage.googleapis.com/b/k?X-Goog-Signature={made(HEX, 128)}", made(HEX, 128)),
    (
        f"https://d1.cloudfront.net/k?Expires=1&Signature={made(ALNUM, 60)}&Key-Pair-Id=K",
        made(ALNUM, 60),
    ),
    (f"https://x/y?private_token={_RANDOM}&page=2", _RANDOM),
    (f"https://x/y?next=https%3A%2F%2Fz%3Faccess_token%3D{_RANDOM}", _RANDOM),
    (f"https://x/y?api_key={made(HEX, 32)}&v=1", made(HEX, 32)),
    (f"https://hooks.slack.com/services/T{made(UPPER, 8)}/B{made(UPPER, 8)}/{_RANDOM}", _RANDOM),
    (
        f"https://discord.com/api/webhooks/{made('123456789', 18)}/{made(URLSAFE, 68)}",
        made(URLSAFE, 68),
    ),
    (
        f"https://x.webhook.office.com/webhookb2/{_UUID}@{_UUID}/IncomingWebhook/{made(HEX, 32)}/x",
        made(HEX, 32),
    ),
)

_HEADERS: tuple[Case, ...] = (
    (f"Authorization: Bearer {_RANDOM}", _RANDOM),
    (f"authorization: Basic {encode_base64('ci:' + _PASSWORD)}", encode_base64("ci:" + _PASSWORD)),
    (f'"Authorization": "token {made(HEX, 40)}"', made(HEX, 40)),
    (f"{{'AUTHORIZATION': 'Token {made(HEX, 40)}'}}", made(HEX, 40)),
    (f"Proxy-Authorization: Basic {encode_base64('u:pw12345678')}", encode_base64("u:pw12345678")),
    (f"> Authorization: {_RANDOM}", _RANDOM),
    (f"Authorization: Custom {_RANDOM}", _RANDOM),
    (
        f"Authorization: AWS4-HMAC-SHA256 Credential=x, Signature={made(HEX, 64)}",
        made(HEX, 64),
    ),
    (f'Authorization: Digest username="u", nonce="n", response="{made(HEX, 32)}"', made(HEX, 32)),
    (f"curl -H 'Authorization: Bearer {_RANDOM}' https://x", _RANDOM),
    (f"with bearer {_RANDOM}", _RANDOM),
    (f"Authorization%3A%20Bearer%20{_RANDOM}", _RANDOM),
    (f"PRIVATE-TOKEN: {_RANDOM}", _RANDOM),
    (f"JOB-TOKEN: {_RANDOM}", _RANDOM),
    (f"X-Api-Key: {made(HEX, 32)}", made(HEX, 32)),
    (f"X-Vault-Token: s.{_RANDOM}", _RANDOM),
    (f"X-Auth-Token: {made(HEX, 32)}", made(HEX, 32)),
    (f"X-Amz-Security-Token: {made(BASE64, 300)}", made(BASE64, 300)),
    (f"Cookie: sid={_RANDOM}; theme=dark", _RANDOM),
    (f"Cookie: theme=dark; _gitlab_session={made(HEX, 32)}", made(HEX, 32)),
    (f"< Set-Cookie: session={_RANDOM}; Path=/; HttpOnly", _RANDOM),
    (f"set-cookie: __Host-id=s%3A{_RANDOM}.{made(BASE64, 20)}; Secure", _RANDOM),
    (f'"Cookie": "connect.sid={_RANDOM}"', _RANDOM),
)

_OPTIONS: tuple[Case, ...] = (
    (f"curl -sSf -u ci:{_PASSWORD} https://x/y", _PASSWORD),
    ("curl -u 'admin:s3cretpass' https://x", "s3cretpass"),
    (f"curl --user admin:{_WORDS} https://x", _WORDS),
    ("+ curl --user deploy:letmein https://x", "letmein"),
    ("curl -uadmin:letmein12 https://x", "letmein12"),
    (f"wget --http-user=x --http-password={_WORDS} https://x", _WORDS),
    (f"docker login -u gitlab -p {_RANDOM} registry.example.com", _RANDOM),
    ("docker login -u ci -p swordfish registry.example.com", "swordfish"),
    (f"podman login --username ci --password {_PASSWORD} r", _PASSWORD),
    ("mysql -h db -u root -p" + "hunter22 app < dump.sql", "hunter22"),
    ("mysqldump -uroot -ps3cr3tpw app", "s3cr3tpw"),
    (f"sshpass -p {_PASSWORD} ssh deploy@host", _PASSWORD),
    (f"sshpass -p'{_PASSWORD}' scp a b:", _PASSWORD),
    (f"twine upload -u __token__ -p {_RANDOM} dist/*", _RANDOM),
    (f"helm registry login -u ci -p {_RANDOM} r", _RANDOM),
    (f"oc login --token={_RANDOM} --server=https://x", _RANDOM),
    (f"oc login --token {_RANDOM}", _RANDOM),
    (f"vault login -token {_RANDOM}", _RANDOM),
    (f"npx semantic-release --token '{_RANDOM}'", _RANDOM),
    (f"gh auth --with-token {_RANDOM}", _RANDOM),
    (f"mvn deploy -Dgpg.passphrase={_WORDS} -B", _WORDS),
    (f"java -Djavax.net.ssl.keyStorePassword={_WORDS}", _WORDS),
    (f"ansible-playbook --extra-vars db_password={_PASSWORD}", _PASSWORD),
    (f"helm upgrade x --set auth.password={_PASSWORD}", _PASSWORD),
    (f"dotnet nuget push --api-key {made(LOWER, 46)}", made(LOWER, 46)),
    (f"ldapsearch -D cn=admin -w {_WORDS} -b dc=x", _WORDS),
)

_FILES: tuple[Case, ...] = (
    (f"machine host.example.com login ci password {_RANDOM}", _RANDOM),
    ("machine host login ci password swordfish", "swordfish"),
    (f"machine host\n  login ci\n  password {_WORDS}", _WORDS),
    (f"default login me password {_WORDS}", _WORDS),
    (f"<password>{_PASSWORD}</password>", _PASSWORD),
    ("<password>swordfish</password>", "swordfish"),
    (f"<server><passphrase>{_WORDS}</passphrase></server>", _WORDS),
    (f"<privateKey>{_RANDOM}</privateKey>", _RANDOM),
    (f"<apiToken>{_RANDOM}</apiToken>", _RANDOM),
    (f'<add key="ClearTextPassword" value="{_PASSWORD}" />', _PASSWORD),
    (f'<property name="password" value="{_WORDS}"/>', _WORDS),
    (f'{{"name": "DB_PASSWORD", "value": "{_PASSWORD}"}}', _PASSWORD),
    (f"  - name: DB_PASSWORD\n    value: {_PASSWORD}", _PASSWORD),
    (f'+  - name: "DB_PASSWORD"\n+    value: "{_WORDS}"', _WORDS),
    (f'"name": "DB_PASSWORD",\r\n        "value": "{_PASSWORD}"', _PASSWORD),
    (f'+ name  = "DB_PASSWORD"\n+ value = "{_PASSWORD}"', _PASSWORD),
    (f'{{"key":"CI_TOKEN","variable_type":"env_var","value":"{_RANDOM}"}}', _RANDOM),
    (f'{{\\"key\\":\\"CI_TOKEN\\",\\"value\\":\\"{_RANDOM}\\"}}', _RANDOM),
    (f"//registry.example.com/:_authToken={_UUID}", _UUID),
    (f"npm config set //registry.example.com/:_authToken {_UUID}", _UUID),
    (f"Step 4/10 : ENV DB_PASSWORD {_PASSWORD}", _PASSWORD),
    (f"#8 [4/9] ENV CI_TOKEN {_RANDOM}\n", _RANDOM),
    (f"Server=h;Uid=sa;Pwd={_PASSWORD};Encrypt=yes", _PASSWORD),
    (f"keytool -importkeystore -srcstorepass {_WORDS} -v", _WORDS),
    (f"keytool -genkey -storepass '{_PASSWORD}' -keypass x", _PASSWORD),
    (f"jarsigner -keypass {_PASSWORD} app.jar", _PASSWORD),
    (
        f"//registry.example.com/:_auth={encode_base64('ci:' + _WORDS)}",
        encode_base64("ci:" + _WORDS),
    ),
    (
        f'{{"auths": {{"r": {{"auth": "{encode_base64("u:" + _WORDS)}"}}}}}}',
        encode_base64("u:" + _WORDS),
    ),
    (f"CREATE USER 'app'@'%' IDENTIFIED BY '{_WORDS}';", _WORDS),
    (f"ALTER ROLE app WITH PASSWORD '{_PASSWORD}';", _PASSWORD),
    (
        f"<RSAKeyValue><Modulus>{made(BASE64, 80)}</Modulus><Exponent>AQAB</Exponent>"
        f"<P>{made(BASE64, 40)}</P><D>{made(BASE64, 90)}</D></RSAKeyValue>",
        made(BASE64, 90),
    ),
)

_ASSIGNED: tuple[Case, ...] = (
    (f"DB_PASSWORD={_PASSWORD}", _PASSWORD),
    ("export PGPASSWORD=hunter2hunter2", "hunter2hunter2"),
    ("DB_PASS=ab12cd34", "ab12cd34"),
    ("MYSQL_ROOT_PASSWORD=swordfishes", "swordfishes"),
    (f"password: {_PASSWORD}", _PASSWORD),
    (f"password: {_WORDS}", _WORDS),
    (f'"password": "{_PASSWORD}"', _PASSWORD),
    ('"password":"ab\\"cd12EF"', "cd12EF"),
    (f'\\"password\\": \\"{_PASSWORD}\\"', _PASSWORD),
    (f"'password': '{_WORDS}',", _WORDS),
    (f':password=>"{made(HEX, 32)}"', made(HEX, 32)),
    (f"config['password'] = '{_PASSWORD}'", _PASSWORD),
    (f'dbPassword = "{_PASSWORD}"', _PASSWORD),
    (f"spring.datasource.password={_WORDS}", _WORDS),
    (f"Generated root password: {_RANDOM}", _RANDOM),
    (f"your password is {_PASSWORD}", _PASSWORD),
    ('password = "0pen the Pod-bay doors!"', "Pod-bay"),
    (f"passphrase={_WORDS}", _WORDS),
    (f"\x1b[36mDB_PASSWORD\x1b[0m=\x1b[33m{_PASSWORD}\x1b[0m", _PASSWORD),
    (f'\x1b[36m"api_token"\x1b[0m: \x1b[1;33m"{_RANDOM}"\x1b[0m', _RANDOM),
    (f"passwd={_PASSWORD}", _PASSWORD),
    (f"userPwd: {_PASSWORD}", _PASSWORD),
    (f'sasl.jaas.config=x required username="u" password="{_PASSWORD}";', _PASSWORD),
    ("SECRET=/" + made(BASE64, 30), made(BASE64, 30)),
    ("PASSWORD=/st4rts.With-slash", "st4rts.With-slash"),
    ("PASSWORD=~T1lde!x", "T1lde!x"),
    ("PASSWORD=.d0tFirst9", "d0tFirst9"),
    ("PASSWORD=*5tarFirst9", "5tarFirst9"),
    ("PASSWORD=&4mpFirst9", "4mpFirst9"),
    ("PASSWORD=@tF1rst99", "tF1rst99"),
    ("PASSWORD=%Perc3nt!9", "Perc3nt!9"),
    ("PASSWORD=-D4shFirst9", "D4shFirst9"),
    ("token=%" + _RANDOM, _RANDOM),
    ("api_key: -" + _RANDOM, _RANDOM),
    ("secret: ~" + _RANDOM, _RANDOM),
    ("client_secret=." + _RANDOM, _RANDOM),
    ("auth_token: *" + _RANDOM, _RANDOM),
    ("SECRET=&" + _RANDOM, _RANDOM),
    ("SECRET=@" + _RANDOM, _RANDOM),
    ("PASSWORD={Br4ce-first", "Br4ce-first"),
    ("PASSWORD=(Br4cket-first", "Br4cket-first"),
    ("PASSWORD=$ecr3tP4ss!word", "ecr3tP4ss!word"),
    ("PASSWORD=example-Pa55!", "example-Pa55!"),
    ("password: myExample9!pw", "myExample9!pw"),
    ("TOKEN=example" + _RANDOM, _RANDOM),
    ("aws_secret_access_key = " + _KEY40[:33] + "EXAMPLE", _KEY40[:33]),
    (f"AWS_SECRET_ACCESS_KEY=/{_KEY40}", _KEY40),
    (f'"SecretAccessKey": "{_KEY40}"', _KEY40),
    (f"aws_session_token={made(BASE64, 700)}", made(BASE64, 700)),
    (f"STRIPE_KEY={_RANDOM}", _RANDOM),
    (f"DEPLOY_KEY={made(HEX, 40)}", made(HEX, 40)),
    (f"SIGNING_KEY: {made(BASE64, 43)}=", made(BASE64, 43)),
    (f"api_key: {made(HEX, 20)}", made(HEX, 20)),
    (f'"apiKey":"{_RANDOM}"', _RANDOM),
    (f"subscription-key = {made(HEX, 32)}", made(HEX, 32)),
    (f"PrivateKey = {made(BASE64, 43)}=", made(BASE64, 43)),
    (f"SECRET_KEY_BASE={made(HEX, 128)}", made(HEX, 128)),
    (f"secret_key_base: {made(HEX, 128)}", made(HEX, 128)),
    (f"client_secret={_RANDOM}", _RANDOM),
    (f'"client_secret":"{made(URLSAFE, 40)}"', made(URLSAFE, 40)),
    (f"clientSecret: '{_RANDOM}'", _RANDOM),
    (f"HEROKU_API_KEY={_UUID}", _UUID),
    (f"SNYK_TOKEN={_UUID}", _UUID),
    (f"CODECOV_TOKEN='{_UUID}'", _UUID),
    (f"TOKEN={made(LOWER, 32)}", made(LOWER, 32)),
    (f"GITLAB_TOKEN_PROD={_RANDOM}", _RANDOM),
    (f'$env:NUGET_TOKEN = "{_RANDOM}"', _RANDOM),
    (f"ENV TOKEN {_RANDOM}"[0:4] + f"TOKEN={_RANDOM}", _RANDOM),
    (f"accessToken={_RANDOM}", _RANDOM),
    (f"refresh_token := {_RANDOM}", _RANDOM),
    (f"token => {_RANDOM}", _RANDOM),
    (f"csrf-token: {made(BASE64, 44)}", made(BASE64, 44)),
    (f"CI_JOB_TOKEN={made(URLSAFE, 64)}", made(URLSAFE, 64)),
    (f"credentials: {made(BASE64, 60)}", made(BASE64, 60)),
    (f"encryption_key={made(HEX, 64)}", made(HEX, 64)),
    (f"HMAC_KEY={made(BASE64, 43)}=", made(BASE64, 43)),
    (f"secret%3D{_RANDOM}", _RANDOM),
    (f'  token: "{_RANDOM}"', _RANDOM),
    (f'identitytoken": "{made(URLSAFE, 200)}"', made(URLSAFE, 200)),
    (f"webhookSecret: {_RANDOM}", _RANDOM),
    (f'token="{made(ALNUM, 2000)}"', made(ALNUM, 2000)),
    (f"Secret: {made(HEX, 64)}", made(HEX, 64)),
    (f"pässword-secret={_RANDOM}", _RANDOM),
    (f"DB_PASSWORD=pässw0rt{_PASSWORD}", _PASSWORD),
)

_ENCODED: tuple[Case, ...] = tuple(
    (before + encoded + after, encoded)
    for token in (
        *("glpat-" + made(ALNUM, 20), "ghp_" + made(ALNUM, 36), "AKIA" + made(UPPER, 16)),
        *("sk-ant-api03-" + made(ALNUM, 80), "npm_" + made(ALNUM, 36), JWT),
    )
    for shift in range(3)
    for before, encoded, after in (("data: ", encode_base64("u" * shift + token), " end"),)
)

SECRETS: tuple[Case, ...] = (
    *(*_tokens(), *_SHAPED, *_URLS, *_HEADERS, *_OPTIONS, *_FILES, *_ASSIGNED, *_ENCODED),
)
"""Lines that hold a secret, and the secret."""
