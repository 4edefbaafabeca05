//! Flags that say how text is generated; what a flag leaves open, the verb decides.

use crate::failure::{Failure, WrongUsage};
use clap::{Arg, Command};
use std::num::NonZeroUsize;
use wgoose_session::{GenerateOptions, Model};

/// How text is generated.
#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingFlags {
    /// Most tokens to generate for each prompt.
    #[arg(short = 'n', long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Sampling temperature; 0 is greedy.
    #[arg(short, long, visible_alias = "temp", value_parser = temperature)]
    temperature: Option<f32>,
    /// Sample from the fewest most likely tokens whose probabilities sum to this (nucleus sampling).
    #[arg(long, value_name = "SUM", value_parser = share)]
    top_p: Option<f32>,
    /// Sample from the k most likely tokens only.
    #[arg(long, value_name = "K", value_parser = at_least_one)]
    top_k: Option<NonZeroUsize>,
    /// Sample from tokens at least this times as likely as the likeliest one only.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    min_p: Option<f32>,
    /// Locally typical sampling: from the tokens left by --top-p, --top-k and --min-p, keep those whose information is
    /// nearest to the expected one, until their probabilities sum to this.
    #[arg(long, value_name = "SUM", value_parser = share)]
    typical: Option<f32>,
    /// Subtract this from the logit of every token generated before.
    #[arg(long, value_name = "LOGITS", value_parser = penalty)]
    presence_penalty: Option<f32>,
    /// Subtract this from a token's logit for each time it was generated.
    #[arg(long, value_name = "LOGITS", value_parser = penalty)]
    frequency_penalty: Option<f32>,
    /// Divide the positive logits of tokens in the prompt or generated before by this, and multiply the others.
    #[arg(long, value_name = "FACTOR", value_parser = repetition)]
    repetition_penalty: Option<f32>,
    /// Multiply the counts behind the presence and frequency penalties by this at every token.
    #[arg(long, value_name = "FACTOR", value_parser = share)]
    penalty_decay: Option<f32>,
    /// Add a bias to a token's logit, such as 261=-inf, which bans the token. Repeatable.
    #[arg(long, value_name = "TOKEN=BIAS", value_parser = bias)]
    logit_bias: Vec<(u32, f32)>,
    /// Stop before this text; \n, \r, \t and \\ are escapes. Repeatable.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = unescaped)]
    stop: Vec<String>,
    /// Stop at this token, as at end-of-text (0). Repeatable.
    #[arg(long, value_name = "TOKEN")]
    stop_token: Vec<u32>,
    /// Seed of sampling. The same seed, plan and device give the same text; the GPU and the CPU reference draw
    /// different random numbers.
    #[arg(short, long)]
    seed: Option<u64>,
}

/// Has the help of a verb say what its options are where no flag says so.
pub(crate) fn with_defaults(verb: Command, options: &GenerateOptions) -> Command {
    let how = &options.sampling;
    let defaults = [
        ("max_tokens", options.max_tokens.to_string()),
        ("temperature", how.temperature.to_string()),
        ("top_p", how.top_p.to_string()),
        ("min_p", how.min_p.to_string()),
        ("repetition_penalty", how.penalties.repetition.to_string()),
        ("presence_penalty", how.penalties.presence.to_string()),
        ("frequency_penalty", how.penalties.frequency.to_string()),
        ("penalty_decay", how.penalties.decay.to_string()),
        ("seed", how.seed.to_string()),
    ];
    let said = |arg: Arg, default: &str| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        arg.help(format!("{help} [default: {default}]"))
    };
    defaults.into_iter().fold(verb, |verb, (name, default)| verb.mut_arg(name, |arg| said(arg, &default)))
}

impl SamplingFlags {
    /// The options, given those of the verb.
    pub(crate) fn options(&self, mut options: GenerateOptions) -> GenerateOptions {
        fn set<T>(place: &mut T, flag: Option<T>) {
            if let Some(value) = flag {
                *place = value;
            }
        }
        set(&mut options.max_tokens, self.max_tokens);
        let how = &mut options.sampling;
        set(&mut how.temperature, self.temperature);
        set(&mut how.top_p, self.top_p);
        set(&mut how.top_k, self.top_k.map(Some));
        set(&mut how.min_p, self.min_p);
        set(&mut how.typical, self.typical);
        set(&mut how.penalties.repetition, self.repetition_penalty);
        set(&mut how.penalties.presence, self.presence_penalty);
        set(&mut how.penalties.frequency, self.frequency_penalty);
        set(&mut how.penalties.decay, self.penalty_decay);
        set(&mut how.seed, self.seed);
        how.bias.extend_from_slice(&self.logit_bias);
        options.stop_strings.extend_from_slice(&self.stop);
        options.stop_tokens.extend_from_slice(&self.stop_token);
        options
    }

    /// Whether the model has the tokens to stop at; those of a bias are checked where it is used.
    pub(crate) fn check(&self, model: &Model) -> Result<(), Failure> {
        let vocab = model.shape().vocab;
        match self.stop_token.iter().find(|token| **token >= vocab) {
            Some(token) => Err(WrongUsage(format!("--stop-token {token}: the model has tokens below {vocab}")).into()),
            None => Ok(()),
        }
    }
}

fn number(text: &str, wants: &str, is_right: impl Fn(f32) -> bool) -> Result<f32, String> {
    text.parse().ok().filter(|number| is_right(*number)).ok_or_else(|| format!("expected {wants}"))
}

fn temperature(text: &str) -> Result<f32, String> {
    number(text, "a number from 0 (greedy) upwards; 1 is the model's own distribution", |t| t.is_finite() && t >= 0.0)
}

fn share(text: &str) -> Result<f32, String> {
    number(text, "a number from 0 to 1", |share| (0.0..=1.0).contains(&share))
}

fn penalty(text: &str) -> Result<f32, String> {
    number(text, "a number within 1e30 (0 is none)", |penalty| penalty.abs() <= 1e30)
}

fn repetition(text: &str) -> Result<f32, String> {
    number(text, "a number from 0.01 to 100 (1 is none)", |penalty| (0.01..=100.0).contains(&penalty))
}

fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number from 1 upwards".to_owned())
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let wants = || "expected TOKEN=BIAS, such as 261=-inf or 11=0.5".to_owned();
    let (token, bias) = text.split_once('=').ok_or_else(wants)?;
    Ok((token.parse().map_err(|_| wants())?, bias.parse().map_err(|_| wants())?))
}

/// Shells pass on a backslash and a letter for what people mean by it.
fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some(escaped @ ('n' | 'r' | 't' | '\\'))) => {
                chars.next();
                out.push(match escaped {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                });
            }
            (c, _) => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_that_shells_leave_are_expanded() {
        let unescaped = |text| unescaped(text).unwrap();
        assert_eq!(unescaped(r"\n\nUser:\t"), "\n\nUser:\t");
        assert_eq!(unescaped(r"C:\\new \d \"), r"C:\new \d \");
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(temperature("-1").is_err() && temperature("inf").is_err() && temperature("nan").is_err());
        assert!(share("2").is_err() && share("nan").is_err() && penalty("nan").is_err() && at_least_one("0").is_err());
        assert_eq!((temperature("0"), share("1"), penalty("-0.5")), (Ok(0.0), Ok(1.0), Ok(-0.5)));
    }
}
