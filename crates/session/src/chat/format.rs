//! The format of chats: that of the RWKV-7 G1 models, or a template in Jinja, as model files have them.
//!
//! Templates are run as Hugging Face's `apply_chat_template` runs them
//! (huggingface.co/docs/transformers/chat_templating): `messages` with `role` and `content`, `tools`,
//! `add_generation_prompt`, `enable_thinking`, `bos_token` and `eos_token` (empty here), Python's methods of strings,
//! `raise_exception`; a block takes the line break after it.

use super::template::{ChatMessage, NEXT_USER, conversation, next_message};
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::Serialize;

/// Names of the format of the G1 models, where a file has a name instead of a template: llama.cpp's, and this
/// project's.
const NAMES: [&str; 2] = ["rwkv-world", "rwkv"];

/// What a template may compute, in steps of its engine: ten million are about a second.
const FUEL: u64 = 10_000_000;

/// Stands for the last answer, to see what a template puts behind it.
const ANSWERED: &str = "\u{f8ff}answered\u{f8ff}";

/// What a text says in its template's place, to see what is there whatever it says.
const SAID: [&str; 2] = ["\u{f8fe}", "\u{f8fd}"];

/// A template that makes no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatFormatError {
    /// Neither a template nor a known name.
    #[error("the chat template '{0}' is neither Jinja nor 'rwkv'")]
    Name(String),
    /// It is no Jinja, or refuses a conversation.
    #[error("the chat template says: {0}")]
    Template(String),
    /// It does not go on from a conversation.
    #[error("the chat template gives no text between an answer and the next message")]
    NoNext,
}

impl From<Error> for ChatFormatError {
    fn from(error: Error) -> Self {
        let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
        ChatFormatError::Template(format!(
            "{}{line}",
            error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
        ))
    }
}

/// How a conversation is written for a model.
#[derive(Clone, Debug)]
pub struct ChatFormat {
    template: Option<Template>,
    next: String,
}

#[derive(Clone, Debug)]
struct Template {
    environment: Environment<'static>,
    tells_tools: bool,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: &'a str,
}

impl Default for ChatFormat {
    /// That of the RWKV-7 G1 models.
    fn default() -> Self {
        ChatFormat { template: None, next: NEXT_USER.to_owned() }
    }
}

impl ChatFormat {
    /// The format with a name, or of a template in Jinja.
    ///
    /// # Errors
    /// It is neither, or writes nothing between an answer and the next message.
    pub fn new(template: &str) -> Result<Self, ChatFormatError> {
        if NAMES.contains(&template.trim()) {
            return Ok(ChatFormat::default());
        }
        if !template.contains("{{") && !template.contains("{%") {
            return Err(ChatFormatError::Name(template.trim().chars().take(40).collect()));
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |why: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, why))
        });
        environment.add_template_owned("chat", template.to_owned())?;
        let template = Template { environment, tells_tools: template.contains("tools") };
        let [first, second] = SAID.map(|text| template.after_answer(text, None, false));
        let (first, second) = (first?, second?);
        let same = first.chars().zip(second.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a);
        let next = same.collect::<String>().trim_end().to_owned();
        match next.is_empty() {
            true => Err(ChatFormatError::NoNext),
            false => Ok(ChatFormat { template: Some(template), next }),
        }
    }

    /// What comes between an answer and the next message, whatever it says; the state of a conversation ends after it.
    pub fn next(&self) -> &str {
        &self.next
    }

    /// Where an answer ends: the beginning of [`ChatFormat::next`], up to the end of its first line that is not blank.
    pub fn stop(&self) -> &str {
        let begins = self.next.len() - self.next.trim_start().len();
        let ends = self.next[begins..].find('\n').map_or(self.next.len(), |length| begins + length);
        &self.next[..ends]
    }

    /// What comes behind the last message, where the model answers; thoughts may begin there.
    ///
    /// # Errors
    /// The template refuses a message.
    pub fn opening(&self, think: bool) -> Result<String, ChatFormatError> {
        let text = self.conversation(&[ChatMessage::User(SAID[0])], None, think)?;
        text.rsplit_once(SAID[0]).map(|(_, opening)| opening.to_owned()).ok_or(ChatFormatError::NoNext)
    }

    /// Whether the text of a conversation tells of its tools; otherwise the system message has to.
    pub fn tells_tools(&self) -> bool {
        self.template.as_ref().is_some_and(|template| template.tells_tools)
    }

    /// The text of a whole conversation, up to where the model answers; `think` has it think before, if the template
    /// can. `tools`: a list in the form of OpenAI's interface.
    ///
    /// # Errors
    /// The template refuses the conversation.
    pub fn conversation(
        &self,
        messages: &[ChatMessage<'_>],
        tools: Option<&serde_json::Value>,
        think: bool,
    ) -> Result<String, ChatFormatError> {
        match &self.template {
            None => Ok(conversation(messages, think)),
            Some(template) => template.conversation(messages, tools, think),
        }
    }

    /// The text of the next message of a conversation whose state ends after [`ChatFormat::next`], up to where the
    /// model answers.
    ///
    /// # Errors
    /// The template refuses the message.
    pub fn next_message(
        &self,
        text: &str,
        tools: Option<&serde_json::Value>,
        think: bool,
    ) -> Result<String, ChatFormatError> {
        let Some(template) = &self.template else { return Ok(next_message(text, think)) };
        let after = template.after_answer(text, tools, think)?;
        after.strip_prefix(&self.next).map(str::to_owned).ok_or(ChatFormatError::NoNext)
    }
}

impl Template {
    fn conversation(
        &self,
        messages: &[ChatMessage<'_>],
        tools: Option<&serde_json::Value>,
        think: bool,
    ) -> Result<String, ChatFormatError> {
        let messages: Vec<Said<'_>> = messages
            .iter()
            .map(|message| match message {
                ChatMessage::System(content) => Said { role: "system", content },
                ChatMessage::User(content) => Said { role: "user", content },
                ChatMessage::Assistant(content) => Said { role: "assistant", content },
            })
            .collect();
        Ok(self.environment.get_template("chat")?.render(context! {
            messages,
            tools,
            add_generation_prompt => true,
            enable_thinking => think,
            bos_token => "",
            eos_token => "",
        })?)
    }

    /// What follows the first answer of a conversation whose second message is that text.
    fn after_answer(
        &self,
        text: &str,
        tools: Option<&serde_json::Value>,
        think: bool,
    ) -> Result<String, ChatFormatError> {
        let messages = [ChatMessage::User("."), ChatMessage::Assistant(ANSWERED), ChatMessage::User(text)];
        let whole = self.conversation(&messages, tools, think)?;
        whole.split_once(ANSWERED).map(|(_, after)| after.to_owned()).ok_or(ChatFormatError::NoNext)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What `wgoose convert` writes into files.
    const WRITTEN: &str = include_str!("../../../loader/src/writer/gguf/chat_template.jinja");

    const RWKV: &str = "{% for message in messages %}
{% if message['role'] == 'system' %}
System: {{ message['content'].strip() }}
{% elif message['role'] == 'user' %}
User: {{ message['content'] | trim }}
{% else %}
Assistant: {{ message['content'] }}
{% endif %}

{% endfor %}
{% if add_generation_prompt %}
Assistant:{% if enable_thinking %} <think{% endif %}{% endif %}";

    const CHATML: &str = "{%- if tools %}<|im_start|>system\n# Tools\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}\
        <|im_end|>\n{% endif %}{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}\
        {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

    #[test]
    fn a_template_of_the_format_writes_what_the_format_says() {
        let (own, template) = (ChatFormat::default(), ChatFormat::new(RWKV).unwrap());
        assert_eq!((template.next(), template.stop(), template.tells_tools()), (own.next(), own.stop(), false));
        let messages = [
            ChatMessage::System("Be brief. "),
            ChatMessage::User("hi"),
            ChatMessage::Assistant("Hello."),
            ChatMessage::User("well"),
        ];
        for think in [false, true] {
            let want = own.conversation(&messages, None, think).unwrap();
            assert_eq!(template.conversation(&messages, None, think).unwrap(), want);
            assert_eq!(template.opening(think), own.opening(think));
            let want = own.next_message("well", None, think).unwrap();
            assert_eq!(template.next_message("well", None, think).unwrap(), want);
        }
        for name in ["rwkv-world", " rwkv\n"] {
            assert_eq!(
                ChatFormat::new(name).unwrap().conversation(&messages, None, false),
                own.conversation(&messages, None, false)
            );
        }
    }

    #[test]
    fn the_written_template_is_the_format() {
        let (own, template) = (ChatFormat::default(), ChatFormat::new(WRITTEN).unwrap());
        assert_eq!((template.next(), template.stop(), template.tells_tools()), (own.next(), own.stop(), false));
        for text in ["hi", " one\r\n\r\n\n  two \n", "", "  a\n\n\n", "{{ x }} {% if %}", "\u{e9}\n\u{1fabf}"] {
            let messages = [
                ChatMessage::System(text),
                ChatMessage::User(text),
                ChatMessage::Assistant(text),
                ChatMessage::User(text),
            ];
            for (think, count) in [(false, 4), (true, 4), (false, 2), (true, 1)] {
                let said = &messages[..count];
                assert_eq!(template.conversation(said, None, think), own.conversation(said, None, think), "{text:?}");
                assert_eq!(template.next_message(text, None, think), own.next_message(text, None, think), "{text:?}");
            }
            assert_eq!(template.opening(true), own.opening(true));
        }
    }

    #[test]
    fn other_templates_are_followed_with_their_tools() {
        let format = ChatFormat::new(CHATML).unwrap();
        assert_eq!((format.stop(), format.next()), ("<|im_end|>", "<|im_end|>\n<|im_start|>user"));
        assert!(format.tells_tools());
        let tools = json!([{ "type": "function", "function": { "name": "honk" } }]);
        let text = format.conversation(&[ChatMessage::User("hi")], Some(&tools), false).unwrap();
        let want = "<|im_start|>system\n# Tools\n{\"type\":\"function\",\"function\":{\"name\":\"honk\"}}\n<|im_end|>\n\
            <|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(text, want);
        let next = format.next_message("and\n\nnow", None, false).unwrap();
        assert_eq!(next, "\nand\n\nnow<|im_end|>\n<|im_start|>assistant\n");
    }

    #[test]
    fn templates_that_make_no_text_say_why() {
        let error = |template: &str| ChatFormat::new(template).unwrap_err().to_string();
        assert_eq!(error("chatml"), "the chat template 'chatml' is neither Jinja nor 'rwkv'");
        assert!(error("{% for %}").contains("line 1"), "{}", error("{% for %}"));
        assert!(error("{{ raise_exception('no geese') }}").contains("no geese"));
        assert!(error("{{ 'always the same' }}").contains("no text between"));
        assert!(
            error("{% for i in range(100000) %}{% for j in range(100000) %}{{ i }}{% endfor %}{% endfor %}").len()
                < 200
        );
        let picky = ChatFormat::new(&format!(
            "{{% if messages[0].content == 'no' %}}{{{{ raise_exception('said no') }}}}{{% endif %}}{CHATML}"
        ));
        let refused = picky.unwrap().conversation(&[ChatMessage::User("no")], None, false).unwrap_err().to_string();
        assert!(refused.contains("said no"), "{refused}");
    }
}
