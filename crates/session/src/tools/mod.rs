//! Tools: functions that a model can call. Here are their description for the model, the grammar of calls, and their reader.
//!
//! There is no published template of RWKV-7 G1 models for tools. The form here is that of RWKV's own server: the system
//! message describes the tools, and a call is JSON between `<tool_call>` and `</tool_call>`. The models write other forms
//! too, which [`CallReader`] reads.

mod call;
mod grammar;
mod payload;
mod prompt;
mod reader;

pub use call::{Tool, ToolCall};
pub use grammar::{ToolChoice, call_grammar};
pub use prompt::{call_text, results_text, tools_text};
pub use reader::{CallReader, ReadText};
