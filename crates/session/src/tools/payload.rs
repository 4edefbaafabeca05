//! JSON within a text that may not be complete yet.

use serde_json::Value;

/// What a text begins with.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    /// A whole value of that many bytes.
    Whole(Value, usize),
    /// The beginning of a value.
    Partial,
    /// Something else, or a malformed value.
    None,
}

/// The JSON object or list that a text begins with.
pub(super) fn json(text: &str) -> Json {
    if !text.starts_with(['{', '[']) {
        return Json::None;
    }
    let (mut depth, mut is_string, mut is_escaped) = (0usize, false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            _ if is_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    let length = index + 1;
                    let value = serde_json::from_str(&text[..length]);
                    return value.map_or(Json::None, |value| Json::Whole(value, length));
                }
            }
            _ => {}
        }
    }
    Json::Partial
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_ends_where_its_brackets_do() {
        let text = r#"{"a": ["}", "\"]"]} more"#;
        assert_eq!(super::json(text), Json::Whole(json!({ "a": ["}", "\"]"] }), 19));
        assert_eq!(super::json("[1, {}]x"), Json::Whole(json!([1, {}]), 7));
        assert_eq!(super::json(&text[..18]), Json::Partial);
        assert_eq!(super::json("{'a': 1}"), Json::None);
        assert_eq!(super::json("goose"), Json::None);
        assert_eq!(super::json("{]"), Json::None);
    }
}
