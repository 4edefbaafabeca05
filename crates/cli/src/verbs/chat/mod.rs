//! `wgoose chat`

mod command;
mod history;
mod input;
mod interrupt;

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
use wgoose_files::default_data_dir;
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
    let penalties = Penalties { presence: 0.5, frequency: 0.5, decay: 0.996 };
    let sampling = SamplerOptions { top_p: 0.3, penalties, ..SamplerOptions::default() };
    GenerateOptions { sampling, max_tokens: 2048, ..GenerateOptions::default() }
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    let (system, generate) = (args.system.clone(), args.sampling.options(defaults()));
    let session = args.first_use.open(args.options.session()?, &args.model, &args.options, started)?;
    args.sampling.check(session.model())?;
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
                eprintln!("wgoose: nothing was said yet");
                continue;
            }
            Ok(Some(command)) => {
                match obey(&mut chat, &command) {
                    Ok(done) if typed && !done.is_empty() => eprintln!("{}", printable(&done)),
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

/// Does what a command asks for; what was done, for people.
fn obey(chat: &mut Chat, command: &Command) -> Result<String, Failure> {
    Ok(match command {
        Command::Help => {
            eprintln!("{HELP}");
            String::new()
        }
        Command::Undo => match chat.undo()? {
            Some(message) => format!("taken back: {}", message.split_whitespace().collect::<Vec<_>>().join(" ")),
            None => "nothing to take back".to_owned(),
        },
        Command::System(system) => {
            chat.set_system(system.clone())?;
            "a new conversation begins".to_owned()
        }
        Command::Reset => {
            chat.reset()?;
            "all is forgotten".to_owned()
        }
        Command::Save(file) => {
            chat.save(file)?;
            format!("written to {}", file.display())
        }
        Command::Load(file) => {
            chat.load(file)?;
            format!("going on from {}", file.display())
        }
        Command::Again | Command::Quit => String::new(),
    })
}

/// What is to be answered.
enum Ask<'a> {
    /// This.
    Message(&'a str),
    /// The last message, anew.
    Again,
}

/// Prints the answer to a message, a line of its own.
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
