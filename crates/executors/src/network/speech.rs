//! `asr` and `tts`: speech to text and text to speech, by OpenAI-compatible APIs.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use http::header::HeaderValue;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{Call, Content, Error, ErrorKind, Output};

use super::NetworkContext;
use super::provider::{credential, endpoint, json as json_of, setting};
use crate::outbound::Request;

const USUAL: &str = "https://api.openai.com/v1";
/// Maximum size of a recording that these APIs accept.
const MAX_AUDIO: u64 = 25 * 1024 * 1024;
const ASR_TIME: Duration = Duration::from_secs(115);
const TTS_TIME: Duration = Duration::from_secs(55);

/// File names by subtype of the media type.
const FORMATS: [(&str, &str); 8] = [
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("m4a", "audio/mp4"),
    ("mp4", "video/mp4"),
    ("webm", "audio/webm"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("flac", "audio/flac"),
];

#[derive(Deserialize)]
struct Heard {
    audio: String,
    #[serde(default)]
    format: Option<String>,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    model: Option<String>,
}

/// Transcribes a recording.
pub(super) async fn recognise(context: &NetworkContext, call: &Call) -> Result<Output, Error> {
    let asked: Heard = call.parse()?;
    let key = credential(call, "api_key")?;
    let (audio, media_type) = fetch(context, call, &asked.audio).await?;
    let named = asked.format.as_deref().unwrap_or_else(|| format_of(&media_type));
    let format = FORMATS.iter().find(|(name, _)| *name == named);
    let (name, media_type) = *format.ok_or_else(|| invalid(format!("unknown format `{named}`")))?;
    let model =
        asked.model.as_deref().or_else(|| setting(call, "asr_model")).unwrap_or("whisper-1");
    let mut form = Form::new();
    form.field("model", model);
    form.field("response_format", "json");
    for (name, value) in [("language", &asked.language), ("prompt", &asked.prompt)] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            form.field(name, value);
        }
    }
    form.file("file", &format!("audio.{name}"), media_type, &audio);
    let (body, content_type) = form.finish()?;
    let url = endpoint(call, USUAL, &["audio", "transcriptions"])?;
    let request = Request::new(Method::POST, url)
        .made_by(call)
        .bearer(key)?
        .body(body, content_type)
        .read_timeout(ASR_TIME)
        .total_timeout(ASR_TIME);
    let found = json_of(context.outbound.send(request).await?).await?;
    let text = found["text"].as_str().ok_or_else(|| {
        Error::new(ErrorKind::UpstreamFailed, "the service answered without a text")
    })?;
    Ok(Output::text(text).with_structured(json!({"text": text})))
}

/// The recording: from base64, a `data:` URL or the URL of a file.
async fn fetch(
    context: &NetworkContext,
    call: &Call,
    audio: &str,
) -> Result<(Bytes, String), Error> {
    if audio.starts_with("http://") || audio.starts_with("https://") {
        let request = Request::parse(Method::GET, audio)?.made_by(call);
        let request = request.max_bytes(MAX_AUDIO).total_timeout(ASR_TIME);
        let answer = context.outbound.send(request).await?.checked().await?;
        let media_type = answer.media_type();
        return Ok((answer.bytes().await?, media_type));
    }
    let (media_type, base64) = audio
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
        .unwrap_or(("", audio));
    if base64.len() as u64 / 4 * 3 > MAX_AUDIO {
        return Err(invalid(format!("the recording is larger than {MAX_AUDIO} bytes")));
    }
    let bytes = STANDARD.decode(base64.trim()).ok().filter(|bytes| !bytes.is_empty());
    let bytes = bytes.ok_or_else(|| {
        invalid("`audio` must be base64, a `data:` address or an http address".to_owned())
    })?;
    Ok((bytes.into(), media_type.to_ascii_lowercase()))
}

fn format_of(media_type: &str) -> &'static str {
    match media_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "wav",
        "audio/mp4" | "audio/x-m4a" | "audio/m4a" => "m4a",
        "video/mp4" => "mp4",
        "audio/webm" | "video/webm" => "webm",
        "audio/ogg" | "application/ogg" | "audio/opus" => "ogg",
        "audio/flac" | "audio/x-flac" => "flac",
        _ => "mp3",
    }
}

#[derive(Deserialize)]
struct Said {
    text: String,
    #[serde(default)]
    voice: Option<String>,
    #[serde(default)]
    format: Option<String>,
    #[serde(default)]
    speed: Option<f64>,
    #[serde(default)]
    model: Option<String>,
}

/// Synthesises speech.
pub(super) async fn speak(context: &NetworkContext, call: &Call) -> Result<Output, Error> {
    let asked: Said = call.parse()?;
    let key = credential(call, "api_key")?;
    let format = asked.format.as_deref().unwrap_or("mp3");
    let model = asked.model.as_deref().or_else(|| setting(call, "tts_model")).unwrap_or("tts-1");
    let mut body = json!({
        "model": model,
        "input": asked.text,
        "voice": asked.voice.as_deref().unwrap_or("alloy"),
        "response_format": format,
    });
    if let Some(speed) = asked.speed {
        body["speed"] = Value::from(speed);
    }
    let request = Request::new(Method::POST, endpoint(call, USUAL, &["audio", "speech"])?)
        .made_by(call)
        .bearer(key)?
        .json(&body)
        .read_timeout(TTS_TIME)
        .total_timeout(TTS_TIME);
    let answer = context.outbound.send(request).await?.checked().await?;
    let said = answer.media_type();
    let is_sound =
        said.starts_with("audio/") || said == "application/octet-stream" || said.is_empty();
    let audio = answer.bytes().await?;
    if !is_sound || audio.is_empty() {
        return Err(Error::new(ErrorKind::UpstreamFailed, "the service answered without a sound"));
    }
    let usual =
        FORMATS.iter().find(|(name, _)| *name == format).map_or("audio/mpeg", |(_, own)| own);
    let media_type = if said.starts_with("audio/") { said } else { usual.to_owned() };
    let size = audio.len();
    let block = Content::blob(&audio, media_type.clone())
        .with_meta("filename", format!("speech.{format}"))
        .with_meta("size", size);
    Ok(Output::from(vec![block])
        .with_structured(json!({"media_type": media_type, "size": size, "format": format})))
}

/// A multipart form with a file (RFC 7578).
struct Form {
    boundary: String,
    body: Vec<u8>,
}

impl Form {
    fn new() -> Self {
        // Random, so that no recording can be crafted to contain it.
        let boundary = format!("windlass-{:032x}", fastrand::u128(..));
        Self { boundary, body: Vec::new() }
    }

    fn field(&mut self, name: &str, value: &str) {
        let head = format!(
            "--{}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n",
            self.boundary
        );
        self.body.extend_from_slice(head.as_bytes());
        self.body.extend_from_slice(value.as_bytes());
        self.body.extend_from_slice(b"\r\n");
    }

    fn file(&mut self, name: &str, file: &str, media_type: &str, bytes: &[u8]) {
        let head = format!(
            "--{}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\
             Content-Type: {media_type}\r\n\r\n",
            self.boundary
        );
        self.body.extend_from_slice(head.as_bytes());
        self.body.extend_from_slice(bytes);
        self.body.extend_from_slice(b"\r\n");
    }

    fn finish(mut self) -> Result<(Vec<u8>, HeaderValue), Error> {
        self.body.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        let content_type = format!("multipart/form-data; boundary={}", self.boundary);
        let content_type = HeaderValue::try_from(content_type)
            .map_err(|_| Error::new(ErrorKind::Internal, "a boundary that is no header"))?;
        Ok((self.body, content_type))
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArguments, message)
}
