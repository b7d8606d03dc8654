//! Clients with OAuth: access tokens of an authorization server instead of API keys.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};

use super::http::{body, newer};
use crate::http::{Client, Server};
use crate::project::Project;
use crate::upstream::{Said, TestUpstream};

/// An authorization server that only says which keys it signs with.
struct Issuer {
    url: String,
    key: KeyPair,
}

impl Issuer {
    fn start() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let x = URL_SAFE_NO_PAD.encode(key.public_key_raw());
        let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k-1", "alg": "EdDSA",
            "use": "sig", "x": x}]});
        let server = TestUpstream::start(move |asked| match asked.what() {
            ("GET", "/.well-known/openid-configuration") => {
                let url = &asked.url;
                let about = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
                Said::json("200 OK", &about)
            }
            ("GET", "/keys") => Said::json("200 OK", &keys),
            _ => Said::json("404 Not Found", &Value::Null),
        });
        Self { url: server.url(), key }
    }

    fn sign(&self, key: &KeyPair, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some("k-1".to_owned());
        encode(&header, claims, &EncodingKey::from_ed_der(&key.serialize_der())).unwrap()
    }

    /// A token for an audience that is good for so many seconds.
    fn token(&self, audience: &str, seconds: i64) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let until = i64::try_from(now.as_secs()).unwrap() + seconds;
        json!({"iss": self.url, "aud": audience, "sub": "ann", "exp": until, "org": "acme"})
    }
}

#[test]
fn a_token_for_us_opens_the_door_of_its_tenant_and_no_other() {
    let issuer = Issuer::start();
    let audience = "https://tools.example.com/mcp";
    let project = Project::empty();
    let settings = format!(
        "server: {{oauth_issuer: \"{}\", oauth_audience: \"{audience}\", oauth_tenant_claim: org}}\n",
        issuer.url
    );
    project.write("windlass.yaml", &settings);
    let server = Server::run(Arc::new(project), &[], &[], None);

    let about = server.nobody().get("/.well-known/oauth-protected-resource/mcp").value();
    assert_eq!(about["authorization_servers"], json!([issuer.url]));
    assert_eq!(about["resource"], audience);

    let definition = "name: own_tool\ndescription: Is mine.\nparameters: []\n\
                      entry: {type: builtin, handler: current_time}";
    let operator = server.key("acme", "operator");
    operator.post("/v1/tools", &json!({"definition": definition})).is(201);
    let client = |token: &str| Client::new(server.address, Some(token));
    let ann = client(&issuer.sign(&issuer.key, &issuer.token(audience, 600)));
    let done = body(&newer(&ann, "tools/call", json!({"name": "own_tool", "arguments": {}})));
    assert!(done["result"]["content"][0]["text"].is_string(), "{done}");

    let mut nobodys = issuer.token(audience, 600);
    nobodys.as_object_mut().unwrap().remove("org");
    let mut strangers = issuer.token(audience, 600);
    strangers["iss"] = json!("https://other.example");
    let other = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let good = issuer.token(audience, 600);
    let unsigned = {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({"alg": "none", "typ": "JWT"})), part(&good))
    };
    for (why, token) in [
        ("for somebody else", issuer.sign(&issuer.key, &issuer.token("https://x.example", 600))),
        ("expired", issuer.sign(&issuer.key, &issuer.token(audience, -600))),
        ("of no tenant", issuer.sign(&issuer.key, &nobodys)),
        ("of another issuer", issuer.sign(&issuer.key, &strangers)),
        ("signed by another", issuer.sign(&other, &good)),
        ("not signed", unsigned),
        ("nonsense", "a.b.c".to_owned()),
    ] {
        let refused = newer(&client(&token), "tools/list", json!({}));
        assert_eq!(refused.status, 401, "{why}");
        assert!(refused.header("www-authenticate").unwrap().contains("resource_metadata"));
    }
    // Tokens are for the protocol; the API has keys.
    assert_eq!(ann.get("/v1/tools").status, 401);
}
