//! Where functions run (inline, async, blocking), and what they may return.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use windlass::{
    CallRequest, Content, Engine, Error, ErrorKind, Inject, IntoOutput, Json, Output, tool,
};

use super::{Forecast, Unit, error, text};

#[tokio::test(flavor = "current_thread")]
async fn functions_run_where_they_should() {
    /// Tells its thread.
    #[tool]
    fn blocking() -> String {
        format!("{:?}", std::thread::current().id())
    }
    /// Tells its thread.
    #[tool(inline)]
    fn inline() -> String {
        format!("{:?}", std::thread::current().id())
    }
    /// Tells its thread.
    #[tool]
    async fn asynchronous() -> String {
        tokio::task::yield_now().await;
        format!("{:?}", std::thread::current().id())
    }
    let here = format!("{:?}", std::thread::current().id());
    assert_ne!(text(blocking::tool(), json!({})).await, here);
    assert_eq!(text(inline::tool(), json!({})).await, here);
    assert_eq!(text(asynchronous::tool(), json!({})).await, here);
}

#[tokio::test]
async fn a_blocking_function_cannot_outstay_its_timeout() {
    struct Gate(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

    /// Waits for a sign.
    #[tool(timeout = "20ms")]
    fn wait(gate: Inject<Gate>) {
        let _ = gate.0.0.lock().unwrap().recv();
    }
    // The sign never comes before the result: the sender lives until the end.
    let (sender, receiver) = std::sync::mpsc::channel();
    let engine =
        Engine::builder().tool(wait::tool()).object(Gate(receiver.into())).build().unwrap();
    let result = engine.call(CallRequest::new("wait", json!({}))).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::Timeout);
    drop(sender);
}

#[tokio::test]
async fn return_values_become_outputs() {
    struct Page(String);
    impl IntoOutput for Page {
        fn into_output(self) -> Result<Output, Error> {
            Ok(Output::text(format!("page {}", self.0)).with_structured(json!({"page": self.0})))
        }
    }

    macro_rules! returns {
        ($type:ty, $value:expr => $text:expr) => {{
            /// Returns something.
            #[tool]
            async fn returning() -> $type {
                $value
            }
            assert_eq!(text(returning::tool(), json!({})).await, $text);
        }};
    }
    returns!(String, "owned".to_owned() => "owned");
    returns!(&'static str, "static" => "static");
    returns!((), () => "");
    returns!(u64, 7 => "7");
    returns!(Option<u64>, None => "null");
    returns!(Vec<u64>, vec![1, 2] => "[1,2]");
    returns!(Value, json!({"a": 1}) => r#"{"a":1}"#);
    returns!(Forecast, Forecast { city: "Bern".into(), days: 1 } => r#"{"city":"Bern","days":1}"#);
    returns!(Json<Forecast>, Json(Forecast { city: "Bern".into(), days: 1 })
        => r#"{"city":"Bern","days":1}"#);
    returns!(Content, Content::text("block") => "block");
    returns!(Vec<Content>, vec![Content::text("a"), Content::text("b")] => "a\nb");
    returns!(Page, Page("1".into()) => "page 1");
    returns!(impl Serialize, Unit::Celsius => r#""celsius""#);
    returns!(Result<Page, String>, Ok(Page("2".into())) => "page 2");
    returns!(Result<&'static str, Error>, Ok("fine") => "fine");
    returns!(Result<Forecast, Box<dyn std::error::Error>>,
        Ok(Forecast { city: "Rome".into(), days: 0 }) => r#"{"city":"Rome","days":0}"#);
}

#[tokio::test]
async fn errors_and_panics_become_error_results() {
    /// Fails.
    #[tool]
    fn fails(city: String) -> Result<Forecast, String> {
        Err(format!("there is no city {city}"))
    }
    let failed = error(fails::tool(), json!({"city": "Atlantis"})).await;
    assert_eq!(
        (failed.kind(), failed.message()),
        (ErrorKind::ToolError, "there is no city Atlantis")
    );

    /// Fails in the engine's words.
    #[tool]
    async fn overloaded() -> Result<String, Error> {
        Err(Error::new(ErrorKind::RateLimited, "slow down")
            .with_retry_after(Duration::from_secs(2)))
    }
    let failed = error(overloaded::tool(), json!({})).await;
    assert_eq!(failed.kind(), ErrorKind::RateLimited);
    assert_eq!(failed.retry_after(), Some(Duration::from_secs(2)));

    /// Panics on its own thread.
    #[tool]
    fn panics() -> String {
        panic!("out of cheese")
    }
    /// Panics in place.
    #[tool]
    async fn panics_async() -> String {
        panic!("out of cheese")
    }
    for builder in [panics::tool(), panics_async::tool()] {
        let failed = error(builder, json!({})).await;
        assert_eq!(failed.kind(), ErrorKind::Panicked);
        assert!(failed.message().contains("out of cheese"));
    }
}
