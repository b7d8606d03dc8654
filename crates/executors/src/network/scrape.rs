//! `webscraper`: a web page as readable text.
//!
//! Obeys robots.txt, also of sites that a redirect leads to. Pages are processed as a
//! stream of tokens, not as a DOM: building one by the HTML standard takes quadratic time
//! on malicious pages.

mod page;
mod prose;
mod robots;

use std::time::Duration;

use http::Method;
use http::header::LOCATION;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;
use windlass::native::run_blocking;
use windlass::{Call, Error, ErrorKind, Output};

use super::{NetworkContext, text};
use crate::outbound::{Answer, Request};
use page::Page;
pub(super) use robots::Robots;

const TIME: Duration = Duration::from_secs(28);
const MAX_BYTES: u64 = 5 * 1024 * 1024;
const MAX_REDIRECTS: usize = 5;
const DEFAULT_CHARS: usize = 20_000;

#[derive(Deserialize)]
struct ScrapeArguments {
    url: String,
    #[serde(default)]
    max_chars: Option<usize>,
    #[serde(default)]
    links: Option<bool>,
}

/// Fetches a page and extracts its text.
pub(super) async fn run(context: &NetworkContext, call: &Call) -> Result<Output, Error> {
    let asked: ScrapeArguments = call.parse()?;
    let max_chars = asked.max_chars.unwrap_or(DEFAULT_CHARS).max(1);
    let with_links = asked.links.unwrap_or(true);
    let answer = fetch(context, call, &asked.url).await?;
    let (media_type, url) = (answer.media_type(), answer.url().clone());
    let is_page = matches!(media_type.as_str(), "text/html" | "application/xhtml+xml" | "");
    if !is_page && !text::is_text(&media_type) {
        return Err(Error::tool(format!("the address has no text: it is {media_type}")));
    }
    let content_type = answer.header("content-type").unwrap_or_default().to_owned();
    let bytes = answer.bytes().await?;
    let page = run_blocking(&call.caller().tenant, move || {
        let text = text::decode(&bytes, &content_type);
        Ok(if is_page { Page::read(&text, &url) } else { Page::plain(text, &url) })
    });
    Ok(describe(&page.await?, max_chars, with_links))
}

/// Follows redirects itself, to check robots.txt of every site on the way.
async fn fetch(context: &NetworkContext, call: &Call, url: &str) -> Result<Answer, Error> {
    let mut request = Request::parse(Method::GET, url)?;
    for _ in 0..=MAX_REDIRECTS {
        let url = request.url_mut().clone();
        context.robots.check(&context.outbound, call, &url).await?;
        let sent = Request::get(url.clone())
            .made_by(call)
            .header("accept", "text/html, application/xhtml+xml, text/*;q=0.8, */*;q=0.1")?
            .without_redirects()
            .total_timeout(TIME)
            .max_bytes(MAX_BYTES);
        let answer = context.outbound.send(sent).await?;
        match next(&url, &answer) {
            Some(next) => request = Request::get(next),
            None => return answer.checked().await,
        }
    }
    let why = format!("the page redirects more than {MAX_REDIRECTS} times");
    Err(Error::new(ErrorKind::UpstreamRejected, why))
}

fn next(url: &Url, answer: &Answer) -> Option<Url> {
    let redirects = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = answer.header(LOCATION.as_str()).filter(|_| redirects)?;
    url.join(location).ok()
}

fn describe(page: &Page, max_chars: usize, with_links: bool) -> Output {
    let whole = page.text.chars().count();
    let text: String = page.text.chars().take(max_chars).collect();
    let links: Vec<Value> = page
        .links
        .iter()
        .filter(|_| with_links)
        .map(|link| json!({"text": link.text, "url": link.url}))
        .collect();
    let mut shown = String::new();
    if !page.title.is_empty() {
        shown = format!("{}\n\n", page.title);
    }
    shown += &text;
    if whole > max_chars {
        shown += &format!("\n\n[{max_chars} of {whole} characters are shown]");
    }
    let structured = json!({
        "url": page.url.as_str(),
        "title": page.title,
        "description": page.description,
        "text": text,
        "links": links,
        "truncated": whole > max_chars,
    });
    Output::text(shown).with_structured(structured)
}
