//! Extracts title, main text and links from HTML.

use std::borrow::Cow;
use std::collections::HashSet;

use html5gum::{DefaultEmitter, EndTag, StartTag, Token, Tokenizer};
use url::Url;

use super::prose::Prose;

/// Elements without readable text.
const CODE: [&str; 13] = [
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas",
    "audio", "video", "select", "textarea",
];
/// Boilerplate elements around the main text.
const FURNITURE: [&str; 7] = ["nav", "footer", "aside", "form", "menu", "dialog", "button"];
/// Elements that end a paragraph.
const BLOCKS: [&str; 15] = [
    "p",
    "blockquote",
    "pre",
    "ul",
    "ol",
    "dl",
    "table",
    "section",
    "article",
    "main",
    "header",
    "figure",
    "hr",
    "details",
    "address",
];
/// Elements that end a line.
const LINES: [&str; 10] =
    ["div", "br", "li", "tr", "dt", "dd", "figcaption", "caption", "summary", "option"];

/// A shorter `<main>` or `<article>` is not taken for the main text.
const ENOUGH: usize = 200;
const MAX_LINKS: usize = 200;
const MAX_LINK_TEXT: usize = 200;
const MAX_TITLE: usize = 500;

/// The extracted content of a page.
pub(super) struct Page {
    pub(super) url: Url,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) text: String,
    pub(super) links: Vec<Link>,
}

/// A link on a page.
pub(super) struct Link {
    pub(super) text: String,
    pub(super) url: String,
}

impl Page {
    /// Extracts from HTML. If only boilerplate elements contain text, that is the text:
    /// one unclosed tag would otherwise hide the rest of the page.
    pub(super) fn read(html: &str, url: &Url) -> Self {
        let page = Reading::read(html, url, &FURNITURE);
        if page.text.is_empty() { Reading::read(html, url, &[]) } else { page }
    }

    /// A plain text page.
    pub(super) fn plain(text: String, url: &Url) -> Self {
        let (title, description) = (String::new(), String::new());
        Self { url: url.clone(), title, description, text, links: Vec::new() }
    }
}

/// State of the extraction.
struct Reading<'a> {
    url: &'a Url,
    base: Url,
    furniture: &'a [&'a str],
    title: Prose,
    in_title: bool,
    description: String,
    all: Prose,
    /// The text in `<main>` and `<article>` only.
    main: Prose,
    main_depth: usize,
    /// The element whose text is skipped, and how many of its name are open.
    hidden: Option<(String, usize)>,
    preformatted: usize,
    link: Option<(Url, Prose)>,
    links: Vec<Link>,
    known: HashSet<String>,
}

impl<'a> Reading<'a> {
    fn read(html: &str, url: &'a Url, furniture: &'a [&'a str]) -> Page {
        let mut reading = Self {
            url,
            base: url.clone(),
            furniture,
            title: Prose::default(),
            in_title: false,
            description: String::new(),
            all: Prose::default(),
            main: Prose::default(),
            main_depth: 0,
            hidden: None,
            preformatted: 0,
            link: None,
            links: Vec::new(),
            known: HashSet::new(),
        };
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        for token in Tokenizer::new_with_emitter(html, emitter).flatten() {
            match token {
                Token::StartTag(tag) => reading.start(&tag),
                Token::EndTag(tag) => reading.end(&tag),
                Token::String(text) => reading.text(&String::from_utf8_lossy(&text)),
                Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
            }
        }
        reading.finish()
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = text_of(&tag.name);
        let name = name.as_ref();
        if let Some((hidden, depth)) = &mut self.hidden {
            *depth += usize::from(hidden == name && !tag.self_closing);
            return;
        }
        if CODE.contains(&name) || self.furniture.contains(&name) {
            self.all.end_line(1);
            if !tag.self_closing {
                self.hidden = Some((name.to_owned(), 1));
            }
            return;
        }
        match name {
            "title" => self.in_title = self.title.len() == 0,
            "base" => self.base = self.address(tag, "href").unwrap_or_else(|| self.base.clone()),
            "meta" => self.meta(tag),
            "a" => {
                self.end_link();
                self.link = self.address(tag, "href").map(|url| (url, Prose::default()));
            }
            "main" | "article" => self.main_depth += 1,
            "pre" => self.preformatted += 1,
            _ => {}
        }
        self.line(name);
        match name {
            "li" => self.push("- "),
            "td" | "th" => self.push(" "),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.push(&format!("{} ", "#".repeat(level)));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: &EndTag<()>) {
        let name = text_of(&tag.name);
        let name = name.as_ref();
        if let Some((hidden, depth)) = &mut self.hidden {
            *depth -= usize::from(hidden == name);
            if *depth == 0 {
                self.hidden = None;
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "a" => self.end_link(),
            "pre" => self.preformatted = self.preformatted.saturating_sub(1),
            _ => {}
        }
        self.line(name);
        if matches!(name, "main" | "article") {
            self.main_depth = self.main_depth.saturating_sub(1);
        }
    }

    fn text(&mut self, text: &str) {
        if self.hidden.is_some() {
            return;
        }
        if self.in_title {
            return self.title.push(text);
        }
        if let Some((_, shown)) = &mut self.link
            && shown.len() < MAX_LINK_TEXT
        {
            shown.push(text);
        }
        self.push(text);
    }

    fn push(&mut self, text: &str) {
        let targets = [Some(&mut self.all), (self.main_depth > 0).then_some(&mut self.main)];
        for prose in targets.into_iter().flatten() {
            match self.preformatted {
                0 => prose.push(text),
                _ => prose.push_verbatim(text),
            }
        }
    }

    fn line(&mut self, name: &str) {
        let breaks = match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => 2,
            name if BLOCKS.contains(&name) => 2,
            name if LINES.contains(&name) => 1,
            _ => return,
        };
        self.all.end_line(breaks);
        self.main.end_line(breaks);
    }

    fn meta(&mut self, tag: &StartTag<()>) {
        let is_description =
            attribute(tag, "name").is_some_and(|name| name.eq_ignore_ascii_case("description"));
        if is_description && self.description.is_empty() {
            let mut prose = Prose::default();
            prose.push(&attribute(tag, "content").unwrap_or_default());
            self.description = cut(prose.finish(), MAX_TITLE);
        }
    }

    fn end_link(&mut self) {
        let Some((url, text)) = self.link.take() else { return };
        if self.links.len() < MAX_LINKS && self.known.insert(url.to_string()) {
            let text = cut(text.finish(), MAX_LINK_TEXT);
            self.links.push(Link { text, url: url.into() });
        }
    }

    /// The URL in an attribute, if it is a link that can be followed.
    fn address(&self, tag: &StartTag<()>, name: &str) -> Option<Url> {
        let mut url = self.base.join(&attribute(tag, name)?).ok()?;
        url.set_fragment(None);
        let same = url == *self.url;
        (matches!(url.scheme(), "http" | "https") && !same).then_some(url)
    }

    fn finish(mut self) -> Page {
        self.end_link();
        let text = if self.main.len() >= ENOUGH { self.main } else { self.all };
        Page {
            url: self.url.clone(),
            title: cut(self.title.finish(), MAX_TITLE),
            description: self.description,
            text: text.finish(),
            links: self.links,
        }
    }
}

fn attribute<'t>(tag: &'t StartTag<()>, name: &str) -> Option<Cow<'t, str>> {
    tag.attributes.get(name.as_bytes()).map(|value| text_of(value))
}

fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn cut(mut text: String, max_bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(max_bytes));
    text
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn read(html: &str) -> Page {
        Page::read(html, &Url::parse("https://example.com/a/b?x=1").unwrap())
    }

    #[test]
    fn the_text_of_a_page_is_what_people_read() {
        let page = read(
            "<!doctype html><title> A &amp; B\n</title><meta name=Description content='short'>
             <nav><a href=/menu>Menu</a></nav>
             <h1>Head</h1><p>One   two<br>three</p><ul><li>x<li><b>y</b>z</ul>
             <script>if (1 < 2) document.write('<p>no</p>')</script><style>p{}</style>
             <pre>  a\n   b</pre><table><tr><td>1<td>2<tr><td>3</table>
             <p>See <a href='../c#top'>the  other</a>, <a href='javascript:x()'>not</a>
             <a href='#here'>nor</a> <a href='//cdn.example/x'>cdn</a></p><footer>Imprint</footer>",
        );
        assert_eq!((page.title.as_str(), page.description.as_str()), ("A & B", "short"));
        assert_eq!(
            page.text,
            "# Head\n\nOne two\nthree\n\n- x\n- yz\n\n  a\n   b\n\n1 2\n3\n\n\
             See the other, not nor cdn"
        );
        let links: Vec<_> = page.links.iter().map(|link| (&*link.text, &*link.url)).collect();
        assert_eq!(
            links,
            [("the other", "https://example.com/c"), ("cdn", "https://cdn.example/x")]
        );
    }

    #[test]
    fn the_main_part_is_enough_where_there_is_one() {
        let long = "word ".repeat(60);
        let page = read(&format!("<div>Around</div><main><p>{long}</p></main><div>More</div>"));
        assert_eq!(page.text, long.trim());
        assert_eq!(read("<main>short</main> and more").text, "short\n\nand more");
    }

    #[test]
    fn broken_and_hostile_pages_are_read_in_linear_time() {
        let began = Instant::now();
        assert_eq!(read("<nav>never closed <p>text").text, "never closed\n\ntext");
        assert_eq!(read("<a href=x>one<a href=y>two").links.len(), 2);
        assert_eq!(read("").text, "");
        for unit in ["<div>", "<p>", "<b><i>", "<table>", "<nav>", "</nav>", "<a href=x>", "<", "&"]
        {
            let html = unit.repeat(300_000 / unit.len());
            assert!(read(&html).links.len() <= MAX_LINKS);
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
