//! `wgoose chat`: messages from a terminal or a pipe, answers as they are generated.

mod command;
mod history;
mod input;
mod interrupt;
mod transcript;

use crate::failure::Failure;
use crate::first_use::FirstUse;
use crate::options::RunOptions;
use crate::sampling::SamplingFlags;
use command::{Command, HELP};
use history::LineHistory;
use input::Input;
use interrupt::Interrupt;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;
use transcript::Transcript;
use wgoose_files::default_data_dir;
use wgoose_loader::{Container, Model};
use wgoose_session::sampling::{Penalties, SamplerOptions};
use wgoose_session::{Chat, ChatOptions, GenerateOptions, GenerationEvent, one_line, printable};

/// Chat with an RWKV-7 G1 model; answers are streamed.
///
/// Each line is a message. A backslash at the end of a line continues the message on the next line; lines between """
/// and """ are one message. /help lists the commands: /regen, /undo, /system TEXT, /reset, /save FILE, /load FILE,
/// /quit. Ctrl-C ends an answer, Ctrl-D leaves.
///
/// On a terminal lines can be edited, and the arrow keys recall earlier lines, from earlier chats too. The history is
/// the file chat-history in $WGOOSE_DATA_DIR, else in the user's data folder; lines that begin with a blank are not
/// stored.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose chat model.gguf
  wgoose chat model.gguf --think --system \"You answer in one sentence.\"
  wgoose chat model.gguf -p \"What is a goose?\" -n 100")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// Let the model think before it answers.
    #[arg(long, overrides_with = "no_think")]
    think: bool,
    /// Let the model answer without thinking (the default).
    #[arg(long, overrides_with = "think")]
    no_think: bool,
    /// System prompt: text that begins the conversation.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// Send this message, print the answer and exit.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Neither read nor store the history of lines.
    #[arg(long)]
    no_history: bool,
    #[command(flatten)]
    sampling: SamplingFlags,
    #[command(flatten)]
    first_use: FirstUse,
    #[command(flatten)]
    options: RunOptions,
}

/// Settings of the reference demo (github.com/BlinkDL/ChatRWKV, API_DEMO_CHAT.py).
pub(crate) fn defaults() -> GenerateOptions {
    let penalties = Penalties { presence: 0.5, frequency: 0.5, decay: 0.996, ..Penalties::NONE };
    let sampling = SamplerOptions { top_p: 0.3, penalties, ..SamplerOptions::default() };
    GenerateOptions { sampling, max_tokens: 2048, ..GenerateOptions::default() }
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    let (system, generate) = (args.system.clone(), args.sampling.options(defaults()));
    let session = args.first_use.open(args.options.session()?, &args.model, &args.options, started)?;
    args.sampling.check(session.model())?;
    session.tokenizer()?;
    say_template(session.model());
    let mut chat = Chat::new(session, ChatOptions { system, think: args.think, generate });
    let interrupt = Interrupt::install();
    if let Some(message) = &args.prompt {
        return answer(&mut chat, &Ask::Message(message), &interrupt);
    }
    let folder = if args.no_history { None } else { default_data_dir() };
    let mut input = Input::new(LineHistory::in_folder(folder))?;
    // A terminal shows whose turn it is; a pipe gets the answers only.
    let typed = input.is_typed();
    if typed {
        eprintln!("/help lists commands; Ctrl-C ends an answer, Ctrl-D leaves");
    }
    while let Some(line) = input.next("\nUser: ")? {
        let asked = match Command::parse(&line) {
            Ok(Some(Command::Quit)) => return Ok(()),
            Ok(Some(Command::Again)) if chat.last().is_some() => Ask::Again,
            Ok(Some(Command::Again)) => {
                eprintln!("wgoose: {}", nothing(&chat));
                continue;
            }
            Ok(Some(command)) => {
                match obey(&mut chat, &command) {
                    Ok(done) if typed && !done.is_empty() => eprintln!("{done}"),
                    Ok(_) => {}
                    Err(why) => eprintln!("wgoose: {}", one_line(why.as_ref())),
                }
                continue;
            }
            Ok(None) if line.trim().is_empty() => continue,
            Ok(None) => Ask::Message(&line),
            Err(why) => {
                eprintln!("wgoose: {}", printable(&why));
                continue;
            }
        };
        if typed {
            out!("\nAssistant: ");
        }
        answer(&mut chat, &asked, &interrupt)?;
    }
    if typed {
        out!("\n");
    }
    Ok(())
}

/// Obeys a command; returns what was done, for people.
fn obey(chat: &mut Chat, command: &Command) -> Result<String, Failure> {
    Ok(match command {
        Command::Help => {
            eprintln!("{HELP}");
            String::new()
        }
        Command::Undo => match chat.undo()? {
            Some(message) => {
                format!("removed: {}", printable(&message.split_whitespace().collect::<Vec<_>>().join(" ")))
            }
            None => nothing(chat).to_owned(),
        },
        Command::System(system) => {
            chat.set_system(system.clone())?;
            "a new conversation begins".to_owned()
        }
        Command::Reset => {
            chat.reset()?;
            "a new conversation begins".to_owned()
        }
        Command::Save(file) => {
            chat.save(file)?;
            format!("saved to {}", printable(&file.display().to_string()))
        }
        Command::Load(file) => {
            chat.load(file)?;
            Transcript { file, turns: chat.turns() }.to_string()
        }
        Command::Again | Command::Quit => String::new(),
    })
}

/// Says which template is used, where the file could name one and does not: its model may not be made for chats.
fn say_template(model: &Model) {
    if model.container() == Container::Gguf && model.about().chat_template.is_none() {
        eprintln!("this file names no chat template: the chat uses the template of RWKV-7 G1");
    }
}

/// Why there is no message to remove or to answer again.
fn nothing(chat: &Chat) -> &'static str {
    match chat.turns().is_empty() {
        true => "nothing was said yet",
        false => "only the last messages since the last /save or /load can be removed or answered again",
    }
}

/// A request to the model.
enum Ask<'a> {
    /// Answer a new message.
    Message(&'a str),
    /// Answer the last message again.
    Again,
}

/// Prints the answer to a message, and the end of its line.
fn answer(chat: &mut Chat, ask: &Ask<'_>, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(chat.opening().as_bytes())?;
    out.flush()?;
    let mut failed = None;
    // Answers begin with a blank, as they follow a colon.
    let mut begun = !chat.opening().is_empty();
    interrupt.answering();
    let mut on_event = |event: GenerationEvent<'_>| {
        if let GenerationEvent::Text(text) = event {
            let text = if begun { text } else { text.trim_start() };
            begun |= !text.is_empty();
            failed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
        }
        match failed.is_some() || interrupt.is_wanted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let said = match ask {
        Ask::Message(message) => chat.say(message, &mut on_event).map(Some),
        Ask::Again => chat.again(&mut on_event),
    };
    interrupt.waiting();
    said?;
    if let Some(why) = failed {
        return Err(why.into());
    }
    Ok(writeln!(out)?)
}
