//! `wgoose chat`

mod command;
mod interrupt;

use crate::failure::Failure;
use crate::first_use::FirstUse;
use crate::options::RunOptions;
use crate::sampling::SamplingFlags;
use command::{COMMANDS, Command};
use interrupt::Interrupt;
use std::io::{BufRead, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;
use wgoose_session::sampling::{Penalties, SamplerOptions};
use wgoose_session::{Chat, ChatOptions, GenerateOptions, one_line, printable};

/// Talk with an RWKV-7 G1 model: a message a line, answers as they come.
///
/// Commands: /reset forgets all that was said, /save FILE and /load FILE keep it, /quit leaves. Ctrl-C ends an answer.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file.
    model: PathBuf,
    /// Have the model think before it answers.
    #[arg(long, overrides_with = "no_think")]
    think: bool,
    /// Have it answer at once; that is the default.
    #[arg(long, overrides_with = "think")]
    no_think: bool,
    /// Tell the model this first.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Say this only, print the answer and leave.
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
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
    let mut chat = Chat::new(session, ChatOptions { system, think: args.think, generate });
    let interrupt = Interrupt::install();
    if let Some(message) = &args.prompt {
        return answer(&mut chat, message, &interrupt);
    }
    // A terminal shows whose turn it is; a pipe gets the answers only.
    let typed = std::io::stdin().is_terminal();
    if typed {
        eprintln!("a message a line; {COMMANDS}; Ctrl-C ends an answer");
    }
    loop {
        if typed {
            out!("\nUser: ");
            std::io::stdout().flush()?;
        }
        let mut bytes = Vec::new();
        if std::io::stdin().lock().read_until(b'\n', &mut bytes)? == 0 {
            return Ok(());
        }
        let Ok(line) = String::from_utf8(bytes) else {
            eprintln!("wgoose: this line is no UTF-8 and was left out");
            continue;
        };
        match Command::parse(&line) {
            Ok(Some(Command::Quit)) => return Ok(()),
            Ok(Some(command)) => {
                if let Err(why) = obey(&mut chat, &command) {
                    eprintln!("wgoose: {}", one_line(why.as_ref()));
                }
            }
            Ok(None) if line.trim().is_empty() => {}
            Ok(None) => {
                if typed {
                    out!("\nAssistant: ");
                }
                answer(&mut chat, &line, &interrupt)?;
            }
            Err(why) => eprintln!("wgoose: {}", printable(&why.to_string())),
        }
    }
}

fn obey(chat: &mut Chat, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Reset => chat.reset()?,
        Command::Save(file) => chat.save(file)?,
        Command::Load(file) => chat.load(file)?,
        Command::Quit => {}
    }
    Ok(())
}

/// Prints the answer to a message, a line of its own.
fn answer(chat: &mut Chat, message: &str, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(chat.opening().as_bytes())?;
    let mut failed = None;
    // Answers begin with a blank, as they follow a colon.
    let mut begun = !chat.opening().is_empty();
    interrupt.answering();
    let said = chat.say(message, &mut |text| {
        let text = if begun { text } else { text.trim_start() };
        begun |= !text.is_empty();
        failed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
        match failed.is_some() || interrupt.is_wanted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    interrupt.waiting();
    said?;
    if let Some(why) = failed {
        return Err(why.into());
    }
    Ok(writeln!(out)?)
}
