//! `think_type`: how the answer of a chat begins, and what the last message says of thinking.

use crate::api::fields::Fields;
use crate::api::refused::Refused;
use wgoose_session::THINKING;

/// How the model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum ThinkType {
    /// It is not told to.
    None,
    /// Its thoughts are empty.
    Fast,
    /// As it likes.
    Free,
    /// In Chinese, if it can.
    PreferChinese,
    /// As it likes, and the message asks for it.
    En,
    EnShort,
    EnLong,
}

impl ThinkType {
    /// Takes the field, or `think` or `enable_think`.
    ///
    /// # Errors
    /// No way to think has that name.
    pub(in crate::api) fn take(fields: &mut Fields) -> Result<Option<Self>, Refused> {
        let think: Option<bool> = fields.take_either("think", "enable_think")?;
        let by_flag = think.map(|think| if think { ThinkType::Free } else { ThinkType::Fast });
        let Some(name) = fields.take::<String>("think_type")? else { return Ok(by_flag) };
        match &name[..] {
            "none" | "off" | "disabled" => Ok(Some(ThinkType::None)),
            "fast" => Ok(Some(ThinkType::Fast)),
            "free" => Ok(Some(ThinkType::Free)),
            "preferChinese" | "prefer_chinese" => Ok(Some(ThinkType::PreferChinese)),
            "en" => Ok(Some(ThinkType::En)),
            "enShort" | "en_short" => Ok(Some(ThinkType::EnShort)),
            "enLong" | "en_long" => Ok(Some(ThinkType::EnLong)),
            _ => {
                let names = "none, fast, free, preferChinese, en, enShort, enLong";
                Err(Refused::field("think_type", format_args!("'{name}' is none of {names}")))
            }
        }
    }

    /// The beginning of the answer.
    pub(in crate::api) fn opening(self) -> &'static str {
        match self {
            ThinkType::None => "",
            ThinkType::Fast => " <think>\n</think",
            ThinkType::PreferChinese => " <think>嗯",
            ThinkType::Free | ThinkType::En | ThinkType::EnShort | ThinkType::EnLong => THINKING,
        }
    }

    /// The end of the last message.
    pub(in crate::api) fn footer(self) -> &'static str {
        match self {
            ThinkType::En => " (think)",
            ThinkType::EnShort => " (think a bit)",
            ThinkType::EnLong => " (think a lot)",
            ThinkType::None | ThinkType::Fast | ThinkType::Free | ThinkType::PreferChinese => "",
        }
    }
}
