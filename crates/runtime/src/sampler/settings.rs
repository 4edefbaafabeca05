//! How a sequence's tokens are chosen, for people and for the kernels.

use crate::decode::{Continuation, DecodeError, MAX_STOPS};
use std::num::NonZeroU32;

/// How a sequence's tokens are chosen. The default draws from the model's own distribution with seed 0.
///
/// The same settings, plan and device give the same tokens, whatever other sequences are decoded beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the scores of the tokens that `top_p` and `top_k` keep; 0 takes the likeliest token, of equal ones the
    /// lowest.
    pub temperature: f32,
    /// Keep the likeliest tokens whose probabilities, before the temperature, first reach this sum (and at least one).
    /// 1 keeps all.
    pub top_p: f32,
    /// Keep at most that many of the likeliest tokens.
    pub top_k: Option<NonZeroU32>,
    /// Of the tokens that `top_p` and `top_k` keep, keep those whose -log p is nearest to its mean (the entropy), until
    /// their probabilities, among these tokens, reach this sum (and at least one). 1 keeps all. Locally typical sampling:
    /// Meister et al., arXiv 2202.00666.
    pub typical: f32,
    /// Applied to the logits before all else.
    pub penalties: Penalties,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Tells sequences with the same seed apart.
    pub stream: u32,
    /// How many tokens were drawn before, with this seed and stream.
    pub drawn: u32,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: None,
            typical: 1.0,
            penalties: Penalties::default(),
            seed: 0,
            stream: 0,
            drawn: 0,
        }
    }
}

/// What a token loses for having been chosen before. The default is nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Subtracted from its logit, while "how often" it was chosen is above 0.
    pub presence: f32,
    /// Subtracted from its logit as often as it was chosen.
    pub frequency: f32,
    /// What becomes of "how often" with every token chosen after it: 1 keeps it, 0.996 forgets slowly.
    pub decay: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Penalties { presence: 0.0, frequency: 0.0, decay: 1.0 }
    }
}

impl Penalties {
    /// Whether they change anything.
    pub fn any(&self) -> bool {
        self.presence != 0.0 || self.frequency != 0.0
    }
}

/// Twin of `Settings` in `kernels-wgsl/sample/layout.wgsl`.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct Settings {
    temperature: f32,
    top_p: f32,
    top_k: u32,
    presence: f32,
    frequency: f32,
    decay: f32,
    seed: [u32; 2],
    stream: u32,
    stops: u32,
    typical: f32,
    biased: u32,
    stop: [u32; MAX_STOPS],
}

/// Twin of `Progress` there: how far a sequence has come.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Progress {
    /// Chosen last; [`NONE`] before the first.
    pub(crate) token: u32,
    step: u32,
    left: u32,
    ended: u32,
}

/// Twin of `NONE` there.
const NONE: u32 = u32::MAX;

/// How a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    GoesOn,
    Ended,
    /// It has no next token, for that reason.
    Broken(&'static str),
}

impl Progress {
    pub(super) fn before(sequence: &Continuation<'_>) -> Self {
        Progress { token: NONE, step: sequence.sampling.drawn, left: sequence.max_tokens, ended: 0 }
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.ended {
            0 => Standing::GoesOn,
            1 => Standing::Ended,
            2 => Standing::Broken("a logit is not a number, the model's arithmetic broke down"),
            3 => Standing::Broken("a logit is infinite, the model's arithmetic overflowed"),
            _ => Standing::Broken("every token is ruled out, all logits are minus infinity"),
        }
    }
}

impl Settings {
    pub(super) fn of(sequence: &Continuation<'_>) -> Self {
        let how = &sequence.sampling;
        let mut stop = [0; MAX_STOPS];
        let stops = sequence.stops.len().min(MAX_STOPS);
        stop[..stops].copy_from_slice(&sequence.stops[..stops]);
        Settings {
            // The reciprocal of a smaller one overflows; the likeliest token has all the weight long before.
            temperature: if how.temperature > 0.0 { how.temperature.max(1e-30) } else { 0.0 },
            top_p: how.top_p,
            top_k: how.top_k.map_or(NONE, NonZeroU32::get),
            presence: how.penalties.presence,
            frequency: how.penalties.frequency,
            decay: how.penalties.decay,
            seed: [how.seed as u32, (how.seed >> 32) as u32],
            stream: how.stream,
            stops: stops as u32,
            typical: how.typical,
            biased: u32::from(!sequence.bias.is_empty()),
            stop,
        }
    }
}

/// Whether that may be added to a logit: no sum overflows.
pub fn is_bias(bias: f32) -> bool {
    bias == f32::NEG_INFINITY || is_penalty(bias)
}

/// Whether that may be taken from a logit, a few times over: nothing overflows.
pub fn is_penalty(penalty: f32) -> bool {
    penalty.abs() <= 1e30
}

/// Checks what a sequence asks for.
///
/// # Errors
/// The setting that is out of range, too many stop tokens, or a token outside the vocabulary.
pub(crate) fn check(sequence: usize, asked: &Continuation<'_>, vocab: u32) -> Result<(), DecodeError> {
    let (how, penalties) = (&asked.sampling, &asked.sampling.penalties);
    let bearable = "a number within 1e30";
    let settings = [
        (
            "temperature",
            how.temperature,
            how.temperature.is_finite() && how.temperature >= 0.0,
            "a finite number from 0 (greedy) upwards",
        ),
        ("top_p", how.top_p, (0.0..=1.0).contains(&how.top_p), "between 0 and 1 (1 keeps every token)"),
        ("typical", how.typical, (0.0..=1.0).contains(&how.typical), "between 0 and 1 (1 keeps every token)"),
        ("presence penalty", penalties.presence, is_penalty(penalties.presence), bearable),
        ("frequency penalty", penalties.frequency, is_penalty(penalties.frequency), bearable),
        ("penalty decay", penalties.decay, (0.0..=1.0).contains(&penalties.decay), "between 0 and 1"),
    ];
    if let Some((setting, value, _, allowed)) = settings.into_iter().find(|(_, _, fine, _)| !fine) {
        return Err(DecodeError::Setting { sequence, setting, value, allowed });
    }
    if let Some((_, value)) = asked.bias.iter().find(|(_, bias)| !is_bias(*bias)) {
        let allowed = "minus infinity (never) or a number within 1e30";
        return Err(DecodeError::Setting { sequence, setting: "logit bias", value: *value, allowed });
    }
    if let Some((token, _)) = asked.bias.iter().chain(asked.chosen).find(|(token, _)| *token >= vocab) {
        return Err(DecodeError::Token { sequence, token: *token, vocab });
    }
    match asked.stops.len() {
        got if got > MAX_STOPS => Err(DecodeError::Stops { sequence, got }),
        _ => Ok(()),
    }
}
