//! Strips HTML from descriptions.
//!
//! Only known tag names count as tags: `<id>` and `List<String>` stay. Block tags become
//! a space, and character references (`&amp;`) the characters.

use std::borrow::Cow;

/// Block tags, which separate words.
const BLOCKS: [&str; 30] = [
    "blockquote",
    "br",
    "caption",
    "center",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "img",
    "li",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];
/// Inline tags.
const INLINE: [&str; 24] = [
    "a", "abbr", "b", "big", "cite", "code", "em", "font", "i", "kbd", "label", "mark", "nobr",
    "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var",
];
/// Elements whose content is dropped.
const UNSEEN: [&str; 2] = ["script", "style"];
const ENTITIES: [(&str, &str); 12] = [
    ("amp", "&"),
    ("apos", "'"),
    ("gt", ">"),
    ("hellip", "…"),
    ("ldquo", "“"),
    ("lt", "<"),
    ("mdash", "—"),
    ("nbsp", " "),
    ("ndash", "–"),
    ("quot", "\""),
    ("rdquo", "”"),
    ("rsquo", "’"),
];
/// Maximum length of a character reference, without its `&`.
const MAX_ENTITY: usize = 10;

/// The plain text of what may be HTML.
pub(super) fn text(written: &str) -> Cow<'_, str> {
    if !written.contains(['<', '&']) {
        return Cow::Borrowed(written);
    }
    let mut out = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find(['<', '&']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = match rest.as_bytes().first() {
            Some(b'<') => tag(rest, &mut out),
            _ => entity(rest, &mut out),
        };
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Skips a tag; anything else stays. Returns the rest.
fn tag<'t>(rest: &'t str, out: &mut String) -> &'t str {
    if let Some(comment) = rest.strip_prefix("<!--") {
        return comment.find("-->").map_or("", |end| &comment[end + 3..]);
    }
    let inner = rest[1..].strip_prefix('/').unwrap_or(&rest[1..]);
    let length = inner.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inner.len());
    let (name, after) = inner.split_at(length);
    let is = |names: &[&str]| names.iter().any(|own| own.eq_ignore_ascii_case(name));
    let (block, unseen) = (is(&BLOCKS), is(&UNSEEN));
    let ends_name = after.starts_with(['>', '/', ' ', '\t', '\n', '\r']);
    let end = if (block || unseen || is(&INLINE)) && ends_name { after.find('>') } else { None };
    let Some(end) = end else {
        out.push('<');
        return &rest[1..];
    };
    if block {
        out.push(' ');
    }
    let after = &after[end + 1..];
    if unseen && !rest.starts_with("</") {
        let closes = after.to_ascii_lowercase().find(&format!("</{}", name.to_ascii_lowercase()));
        return closes.map_or("", |at| &after[at..]);
    }
    after
}

/// Decodes a character reference; anything else stays. Returns the rest.
fn entity<'t>(rest: &'t str, out: &mut String) -> &'t str {
    let within = rest.len().min(MAX_ENTITY + 2);
    let end = rest.as_bytes()[..within].iter().position(|byte| *byte == b';');
    let read = end.and_then(|end| {
        let name = &rest[1..end];
        let number = match name.strip_prefix('#') {
            Some(hex) if hex.starts_with(['x', 'X']) => u32::from_str_radix(&hex[1..], 16).ok(),
            Some(decimal) => decimal.parse().ok(),
            None => None,
        };
        let known = ENTITIES.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).into());
        let text: Option<String> = known.or_else(|| char::from_u32(number?).map(String::from));
        Some((text?, end))
    });
    match read {
        Some((text, end)) => {
            out.push_str(&text);
            &rest[end + 1..]
        }
        None => {
            out.push('&');
            &rest[1..]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn tags_and_references_become_text_and_what_only_looks_like_them_stays() {
        for (written, read) in [
            ("<p>All <b>pets</b> &amp; toys</p>", " All pets & toys "),
            ("one<br/>two<BR>three", "one two three"),
            ("see <a href=\"https://x.example/?a=1&amp;b=2\">this</a>", "see this"),
            ("GET /pets/<id> gives List<String>", "GET /pets/<id> gives List<String>"),
            ("a < b && c > d", "a < b && c > d"),
            ("&#60;&#x3e;&nbsp;&bogus; &", "<> &bogus; &"),
            ("a<script>alert(1)</script>b", "ab"),
            ("a<!-- not for you -->b", "ab"),
            ("unclosed <p", "unclosed <p"),
            ("&lt;b&gt;", "<b>"),
            ("<天>&天;", "<天>&天;"),
        ] {
            assert_eq!(text(written), read, "{written}");
        }
    }
}
