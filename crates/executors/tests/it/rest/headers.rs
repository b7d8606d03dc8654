//! Headers whose values are secret are credentials: a definition is stored and
//! shown as it is.

use serde_json::json;
use windlass_executors::rest::{ImportOptions, Origin, import};

use super::support::engine;

const SECRET: [&str; 9] = [
    "Authorization",
    "Cookie",
    "X-Api-Key",
    "x-apikey",
    "X-Auth-Token",
    "PRIVATE-TOKEN",
    "X-Client-Secret",
    "X-Auth",
    "Ocp-Apim-Subscription-Key",
];
const PLAIN: [&str; 6] =
    ["X-Client", "Api-Version", "Idempotency-Key", "X-Monkey", "X-Author", "X-Public-Key"];

fn by_hand(header: &str) -> Vec<String> {
    let text = format!(
        "name: look\ndescription: Looks.\nparameters: []\nentry: {{type: rest, base_url: \
         'https://api.example.com', method: GET, path: /a, headers: {{{header}: s3cret-value}}}}\n"
    );
    let report = engine().load_text("hand.yaml", &text);
    report.errors.iter().map(|error| error.message.clone()).collect()
}

#[tokio::test]
async fn a_header_that_is_a_key_is_refused_in_a_definition_by_hand() {
    for name in SECRET {
        let errors = by_hand(name).join("; ");
        assert!(errors.contains(&format!("`{name}`")) && errors.contains("credential"), "{errors}");
        assert!(!errors.contains("s3cret-value"), "{errors}");
    }
    for name in PLAIN {
        assert_eq!(by_hand(name), [""; 0], "{name}");
    }
}

#[test]
fn a_header_that_is_a_key_is_refused_with_an_import() {
    let document =
        json!({"openapi": "3.0.3", "info": {}, "servers": [{"url": "https://x.example"}],
        "paths": {"/a": {"get": {"operationId": "a"}}}})
        .to_string();
    let with = |name: &str| {
        let headers = [(name.to_owned(), "s3cret-value".to_owned())].into();
        let options = ImportOptions { headers, ..ImportOptions::default() };
        import("api", &document, &options, Origin::default())
            .map(drop)
            .map_err(|error| error.message().to_owned())
    };
    for name in SECRET {
        let why = with(name).unwrap_err();
        assert!(why.contains("store a credential") && !why.contains("s3cret-value"), "{why}");
    }
    for name in PLAIN {
        assert_eq!(with(name), Ok(()), "{name}");
    }
}
