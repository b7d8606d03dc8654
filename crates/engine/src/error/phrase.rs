//! Phrases of violations in English and Chinese.
//!
//! Violations are stored and sent in English. For readers of Chinese the
//! phrases are recognised by the text around their values, and translated.

/// A phrase with a placeholder for a value, in English and Chinese.
pub(crate) struct Phrase {
    english: (&'static str, &'static str),
    chinese: (&'static str, &'static str),
}

macro_rules! phrases {
    ($($name:ident: $before:literal $(.. $after:literal)?, $zh:literal $(.. $zh_after:literal)?;)*) => {
        $(pub(crate) const $name: Phrase = Phrase {
            english: ($before, concat!($($after)?)),
            chinese: ($zh, concat!($($zh_after)?)),
        };)*

        /// All phrases, longer ones before their own prefixes.
        const ALL: &[&Phrase] = &[$(&$name),*];
    };
}

phrases! {
    REQUIRED: "a required value", "必填的值";
    MISSING: "nothing", "空";
    NO_SUCH_KEY: "no such key", "已知的键";
    JSON_OBJECT: "a JSON object", "JSON 对象";
    PARAMETERS: "an object with the tool's parameters as keys", "以工具参数为键的对象";
    NOT_AN_OBJECT: "JSON that is not an object", "不是对象的 JSON";
    BROKEN_OFF: "JSON that breaks off in the middle of a value; send all of it",
        "在值中间中断的 JSON,请发送完整内容";
    NOT_JSON: "text that is not JSON (" .. ")", "不是 JSON 的文本(" .. ")";
    NO_SUCH_PARAMETER: "no such parameter", "无此参数";
    UNKNOWN_PARAMETER: "an unknown parameter", "未知参数";
    HIDDEN: "hidden", "已隐藏";
    TOO_COSTLY: "a smaller or less deeply nested value, this one takes too many checks",
        "更小或嵌套更浅的值,此值需要的检查过多";
    TOO_COMPLEX: "a value that fits the schema, it is too complex to say where it fails",
        "符合模式的值,其结构过于复杂,无法指出不符之处";
    MISSPELT: "nothing (`" .. "` meant?)", "空(`" .. "`?)";
    ONE_OF: "one of " .. "", "以下之一: " .. "";
    EXACTLY: "exactly " .. "", "恰好为 " .. "";
    MIN_LENGTH: "at least " .. " characters", "至少 " .. " 个字符";
    MAX_LENGTH: "at most " .. " characters", "至多 " .. " 个字符";
    MIN_ITEMS: "at least " .. " items", "至少 " .. " 项";
    MAX_ITEMS: "at most " .. " items", "至多 " .. " 项";
    MIN_KEYS: "at least " .. " keys", "至少 " .. " 个键";
    MAX_KEYS: "at most " .. " keys", "至多 " .. " 个键";
    MINIMUM: "at least " .. "", "不小于 " .. "";
    MAXIMUM: "at most " .. "", "不大于 " .. "";
    MORE_THAN: "more than " .. "", "大于 " .. "";
    LESS_THAN: "less than " .. "", "小于 " .. "";
    MULTIPLE_OF: "a multiple of " .. "", "" .. " 的倍数";
    ALL_DIFFERENT: "items that are all different", "互不相同的项";
    MATCHES: "text that matches " .. "", "匹配 " .. " 的文本";
    FORMAT: "text in the format " .. "", "格式为 " .. " 的文本";
    ONE_ALTERNATIVE: "a value that fits one of the alternatives", "符合其中一种可选形式的值";
    ONLY_ONE_ALTERNATIVE: "a value that fits exactly one of the alternatives",
        "恰好符合一种可选形式的值";
    ARRAY_OF: "an array of " .. " items", "含 " .. " 项的数组";
    OBJECT_OF: "an object of " .. " keys", "含 " .. " 个键的对象";
    STRING: "a string", "字符串";
    NUMBER: "a number", "数字";
    INTEGER: "an integer", "整数";
    BOOLEAN: "a boolean", "布尔值";
    ARRAY: "an array", "数组";
    OBJECT: "an object", "对象";
}

impl Phrase {
    /// The phrase without a value.
    pub(crate) fn text(&self) -> String {
        self.english.0.to_owned()
    }

    /// The phrase with a value.
    pub(crate) fn with(&self, value: impl std::fmt::Display) -> String {
        let (before, after) = self.english;
        format!("{before}{value}{after}")
    }

    /// The value, if a text is an instance of this phrase.
    fn value<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (before, after) = self.english;
        let value = text.strip_prefix(before)?.strip_suffix(after)?;
        let takes_one = !after.is_empty() || before.ends_with(' ');
        (takes_one != value.is_empty()).then_some(value)
    }
}

/// Translates a part of a violation; unknown text stays unchanged.
pub(crate) fn chinese(text: &str) -> String {
    // Translates each alternative.
    if let Some((first, rest)) = text.split_once(OR)
        && first.matches('"').count() % 2 == 0
        && is_phrase(first)
    {
        return format!("{}或{}", chinese(first), chinese(rest));
    }
    match ALL.iter().find_map(|phrase| Some((phrase.chinese, phrase.value(text)?))) {
        Some(((before, after), value)) => {
            let value = value.replace(NO_PARAMETER, "` 不是参数;是否指 `");
            format!("{before}{value}{after}")
        }
        None => text.to_owned(),
    }
}

/// Separates an unknown key from the suggested parameter.
pub(crate) const NO_PARAMETER: &str = "` is not a parameter; is `";

/// Separates alternatives.
pub(crate) const OR: &str = " or ";

fn is_phrase(text: &str) -> bool {
    text == "null" || ALL.iter().any(|phrase| phrase.value(text).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phrase_is_found_again_by_its_own_words() {
        for phrase in ALL {
            let text = match phrase.english.0.ends_with(' ') || !phrase.english.1.is_empty() {
                true => phrase.with(7),
                false => phrase.text(),
            };
            let found = ALL.iter().find(|other| other.value(&text).is_some()).unwrap();
            assert_eq!(found.english, phrase.english, "{text}");
            assert!(!chinese(&text).contains(phrase.english.0), "{text}");
        }
        let misspelt = MISSPELT.with(format!("town{NO_PARAMETER}city"));
        assert_eq!(chinese(&misspelt), "空(`town` 不是参数;是否指 `city`?)");
        assert_eq!(chinese("one of \"this or that\", \"x\""), "以下之一: \"this or that\", \"x\"");
        assert_eq!(chinese("a string or null"), "字符串或null");
        assert_eq!(chinese("\"free text or so\""), "\"free text or so\"");
    }
}
