//! Takes out of a screen what differs from run to run: ids, times, keys, ports and paths.
//! What takes its place is as wide, so that tables stay as they are seen.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::{Captures, Regex};

type Replace = fn(&Captures<'_>) -> String;

/// What differs, and what is shown in its place.
static RULES: LazyLock<Vec<(Regex, Replace)>> = LazyLock::new(|| {
    let rules: [(&str, Replace); 16] = [
        // Fractions of a second come and go with the clock.
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", |_| "2026-01-31T12:00:00Z".to_owned()),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", |_| "2026-01-31 12:00:00".to_owned()),
        (r"\b\d\d-\d\d \d\d:\d\d:\d\d\b", |_| "01-31 12:00:00".to_owned()),
        // UUIDs of calls, and their beginnings in lists.
        (r"\b0[0-9a-f]{7}-[0-9a-f]{4}(-[0-9a-f]+)*\b", |own| masked(&own[0])),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", |own| masked(&own[0])),
        (r"\b[0-9a-f]{64}\b", |own| masked(&own[0])),
        (r"\b(key|cred|wl)_\w+", |own| masked(&own[0])),
        (r"/tmp/\.tmp\w{6}", |_| "/tmp/my-project".to_owned()),
        (r"127\.0\.0\.1:[1-9]\d{4}\b", |_| "127.0.0.1:PORT".to_owned()),
        (r#"\b(master"?: "?)[0-9a-f]{16}"#, |own| format!("{}xxxxxxxxxxxxxxxx", &own[1])),
        (r"\b\d+(\.\d+)? (ms|s)\b", |_| TOOK.to_owned()),
        (r"\b\d+ MiB of disk", |_| "20000 MiB of disk".to_owned()),
        // Whether there is DNS is not the program's doing.
        (r"(?m)^\w+ +outbound +tools reach .*\n( +→ tools that reach out .*\n)?", |_| {
            String::new()
        }),
        (r"(?m)^\d+ broken, \d+ warnings?$", |_| "some broken, some warnings".to_owned()),
        (r"(?m)^! +\d+\.\d{3}s ", |_| "!    0.000s ".to_owned()),
        (r#"("\w*(time|_ms|Ms|wait|delay|seconds)": )[0-9.e-]+"#, |own| format!("{}0.0", &own[1])),
    ];
    rules.map(|(rule, replace)| (Regex::new(rule).unwrap(), replace)).into()
});

/// What stands for a duration.
const TOOK: &str = "TOOK";

/// The screen as it is in every run.
pub(super) fn steady(screen: &str) -> String {
    let today = Timestamp::now().strftime("%Y-%m-%d").to_string();
    let screen = screen.replace(&format!("{today}  "), "2026-01-31  ");
    let screen = RULES
        .iter()
        .fold(screen, |text, (rule, replace)| rule.replace_all(&text, replace).into_owned());
    // A column of durations is as wide as the longest of them.
    let is_row = |line: &str| !line.starts_with('!') && line.contains(&format!("  {TOOK}"));
    let is_table = screen.lines().any(is_row);
    match is_table {
        true => GAPS.replace_all(&screen, "  ").into_owned(),
        false => screen,
    }
}

/// The space between the columns of a table.
static GAPS: LazyLock<Regex> = LazyLock::new(|| Regex::new(" {3,}").unwrap());

/// Every letter and digit but those of the prefix as `x`.
fn masked(id: &str) -> String {
    let prefix = id.find('_').map_or(0, |at| at + 1);
    let hide = |c: char| if c.is_ascii_alphanumeric() { 'x' } else { c };
    id[..prefix].chars().chain(id[prefix..].chars().map(hide)).collect()
}
