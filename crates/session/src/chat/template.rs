//! The chat format of the RWKV-7 G1 models.
//!
//! From their model card (huggingface.co/BlinkDL/rwkv7-g1; the cards of the converted models have the same text,
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

use crate::grammar::{Grammar, GrammarTrigger, Waiting};

/// A message of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatMessage<'a> {
    /// What the model is told before the first message.
    System(&'a str),
    /// What is said to the model.
    User(&'a str),
    /// What the model answered.
    Assistant(&'a str),
}

/// The text of a whole conversation, up to where the model answers; `think` has it think before.
pub fn conversation(messages: &[ChatMessage<'_>], think: bool) -> String {
    let mut text = String::new();
    for said in messages {
        let part = match said {
            ChatMessage::System(told) => format!("System: {}", message(told)),
            ChatMessage::User(asked) => format!("User: {}", message(asked)),
            // As it was generated, with its empty lines.
            ChatMessage::Assistant(answer) => format!("Assistant: {}", answer.trim()),
        };
        text += &part;
        text += "\n\n";
    }
    text + ANSWER + if think { THINKING } else { "" }
}

/// The end of a prompt: the model answers.
const ANSWER: &str = "Assistant:";

/// The end of a prompt after which the model thinks before it answers.
pub const THINKING: &str = " <think";

/// The end of thoughts.
const THOUGHTS_END: &str = "</think>";

/// The grammar of an answer, for a model that thinks before: it applies once the thoughts have ended.
pub fn after_thoughts(answer: Grammar) -> Option<Grammar> {
    let trigger = GrammarTrigger { text: THOUGHTS_END.to_owned(), grammar: answer };
    Grammar::after(vec![trigger], Waiting::Once)
}

/// What comes before a message, but for the first: where it is generated an answer has ended.
pub const NEXT_USER: &str = "\n\nUser:";

/// What comes before the first message.
pub(super) fn first_user(system: Option<&str>) -> String {
    match system {
        Some(system) => format!("System: {}{NEXT_USER}", message(system)),
        None => NEXT_USER.trim_start().to_owned(),
    }
}

/// The text of the next message of a conversation whose state ends where a message begins, as [`crate::Chat::save`]
/// leaves it, up to where the model answers.
pub fn next_message(text: &str, think: bool) -> String {
    let thought = if think { THINKING } else { "" };
    format!(" {}\n\n{ANSWER}{thought}", message(text))
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
    fn turns_follow_the_template_of_the_model_card() {
        assert_eq!(first_user(None), "User:");
        assert_eq!(first_user(Some("Be brief.\n")), "System: Be brief.\n\nUser:");
        assert_eq!(next_message("hi", false), " hi\n\nAssistant:");
        assert_eq!(next_message(" one\r\n\r\n\n  two \n", true), " one\n  two\n\nAssistant: <think");
    }

    #[test]
    fn a_conversation_equals_the_text_of_a_chat() {
        let messages =
            [ChatMessage::System("Be brief.\n"), ChatMessage::User("hi"), ChatMessage::Assistant("Hello.\n\nYou? ")];
        let again = [&messages[..], &[ChatMessage::User("well\n\nthen")]].concat();
        let first = first_user(Some("Be brief.\n")) + &next_message("hi", false);
        assert_eq!(conversation(&messages[..2], false), first);
        let second = format!("{first} Hello.\n\nYou?{NEXT_USER}{}", next_message("well\n\nthen", true));
        assert_eq!(conversation(&again, true), second);
    }
}
