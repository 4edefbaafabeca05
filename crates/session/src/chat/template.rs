//! The chat format of the RWKV-7 G1 models.
//!
//! From their model card (huggingface.co/BlinkDL/rwkv7-g1; the same text stands on the cards of the converted models,
//! huggingface.co/shoumenchougou/RWKV-ST-model):
//!
//! ```text
//! System: ...          (if needed)
//!
//! User: ...
//!
//! Assistant: ...
//!
//! User: ...
//!
//! Assistant:           (or "Assistant: <think": the model then thinks before it answers)
//! ```
//!
//! An empty line parts the rounds of a chat in what the models were trained on, so that messages are to have none: the
//! reference demo (github.com/BlinkDL/ChatRWKV, API_DEMO_CHAT.py) makes one line break of several, as [`message`] does.
//! It ends an answer at an empty line too. Thoughts and long answers have empty lines, so an answer ends here where the
//! next message would begin, or with end-of-text.

/// What comes before a message, but for the first.
pub(super) const NEXT_USER: &str = "\n\nUser:";

/// What comes before the first message.
pub(super) fn first_user(system: Option<&str>) -> String {
    match system {
        Some(system) => format!("System: {}{NEXT_USER}", message(system)),
        None => NEXT_USER.trim_start().to_owned(),
    }
}

/// A message, and what makes the model answer it.
pub(super) fn asked(text: &str, think: bool) -> String {
    let thought = if think { " <think" } else { "" };
    format!(" {}\n\nAssistant:{thought}", message(text))
}

/// A message as the models know it: no empty lines, no blanks around it.
fn message(text: &str) -> String {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_says_so() {
        assert_eq!(first_user(None), "User:");
        assert_eq!(first_user(Some("Be brief.\n")), "System: Be brief.\n\nUser:");
        assert_eq!(asked("hi", false), " hi\n\nAssistant:");
        assert_eq!(asked(" one\r\n\r\n\n  two \n", true), " one\n  two\n\nAssistant: <think");
    }
}
