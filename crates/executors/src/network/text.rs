//! Decodes response bodies to text.

use encoding_rs::{Encoding, UTF_8};

/// How far into a page to look for its encoding, as browsers do.
const SNIFFED: usize = 1024;

/// Decodes by byte order mark, header or `<meta>`; invalid bytes become `U+FFFD`.
pub(super) fn decode(bytes: &[u8], content_type: &str) -> String {
    let named = || parameter(content_type, "charset").or_else(|| in_page(bytes));
    let encoding = Encoding::for_bom(bytes).map(|(encoding, _)| encoding).or_else(named);
    encoding.unwrap_or(UTF_8).decode(bytes).0.into_owned()
}

/// Whether a media type is textual.
pub(super) fn is_text(media_type: &str) -> bool {
    const OTHERS: [&str; 5] = [
        "application/xml",
        "application/javascript",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
        "application/yaml",
    ];
    media_type.starts_with("text/")
        || media_type.ends_with("+xml")
        || is_json(media_type)
        || OTHERS.contains(&media_type)
}

/// Whether a media type is JSON.
pub(super) fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

fn parameter(content_type: &str, name: &str) -> Option<&'static Encoding> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|one| one.split_once('='));
    let (_, value) = parameters.find(|(own, _)| own.trim().eq_ignore_ascii_case(name))?;
    Encoding::for_label(value.trim().trim_matches('"').as_bytes())
}

/// The encoding named by `<meta charset=…>` or its older form.
fn in_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let beginning = &bytes[..bytes.len().min(SNIFFED)];
    let page = String::from_utf8_lossy(beginning).to_ascii_lowercase();
    let (_, after) = page.split_once("charset")?;
    let label = after.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = label.find(|c: char| !c.is_ascii_alphanumeric() && !"-_:.".contains(c));
    Encoding::for_label(&label.as_bytes()[..end.unwrap_or(label.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_an_encoding_counts() {
        let gbk = [0xc4, 0xe3, 0xba, 0xc3];
        assert_eq!(decode(&gbk, "text/plain; charset=gbk"), "你好");
        assert_eq!(decode(&gbk, "text/plain; CharSet=\"GB2312\""), "你好");
        let page = [b"<html><meta charset='gbk'>".as_slice(), &gbk].concat();
        assert!(decode(&page, "text/html").ends_with("你好"));
        let old = [b"<meta content=\"text/html; charset=gbk\">".as_slice(), &gbk].concat();
        assert!(decode(&old, "text/html").ends_with("你好"));
        assert_eq!(decode("\u{feff}é".as_bytes(), "text/plain; charset=gbk"), "é");
        assert_eq!(decode("é".as_bytes(), ""), "é");
        assert_eq!(decode(&[b'a', 0xff], "text/plain; charset=nonsense"), "a\u{fffd}");
    }
}
