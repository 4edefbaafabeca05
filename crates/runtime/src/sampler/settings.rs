//! How a sequence's tokens are chosen, for the kernels.

use crate::decode::{Continuation, DecodeError, MAX_STOPS, MOST_LISTED};
use crate::sampling::{is_bias, is_penalty, is_repetition};
use std::num::NonZeroU32;

/// Twin of `Settings` in `kernels-wgsl/device/sampling/layout.wgsl`.
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
    adjusted: u32,
    min_p: f32,
    repetition: f32,
    masked: u32,
    listed: u32,
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

    /// Of a row that pads a step: it has ended.
    pub(super) fn padding() -> Self {
        Progress { token: NONE, step: 0, left: 0, ended: 1 }
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
            adjusted: u32::from(sequence.is_adjusted()),
            min_p: how.min_p,
            repetition: how.penalties.repetition,
            masked: u32::from(sequence.allowed.is_some()),
            listed: sequence.listed.map_or(0, |listed| u32::from(listed) + 1),
            stop,
        }
    }
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
        ("min_p", how.min_p, (0.0..=1.0).contains(&how.min_p), "between 0 and 1 (0 keeps every token)"),
        ("typical", how.typical, (0.0..=1.0).contains(&how.typical), "between 0 and 1 (1 keeps every token)"),
        ("presence penalty", penalties.presence, is_penalty(penalties.presence), bearable),
        ("frequency penalty", penalties.frequency, is_penalty(penalties.frequency), bearable),
        ("repetition penalty", penalties.repetition, is_repetition(penalties.repetition), "between 0.01 and 100"),
        ("penalty decay", penalties.decay, (0.0..=1.0).contains(&penalties.decay), "between 0 and 1"),
    ];
    if let Some((setting, value, _, allowed)) = settings.into_iter().find(|(_, _, fine, _)| !fine) {
        return Err(DecodeError::Setting { sequence, setting, value, allowed });
    }
    if let Some((_, value)) = asked.bias.iter().find(|(_, bias)| !is_bias(*bias)) {
        let allowed = "minus infinity (never) or a number within 1e30";
        return Err(DecodeError::Setting { sequence, setting: "logit bias", value: *value, allowed });
    }
    if let Some((token, _)) = asked.bias.iter().chain(asked.past).find(|(token, _)| *token >= vocab) {
        return Err(DecodeError::Token { sequence, token: *token, vocab });
    }
    let words = vocab.div_ceil(32) as usize;
    if let Some(got) = asked.allowed.map(<[u32]>::len).filter(|got| *got != words) {
        return Err(DecodeError::Mask { sequence, got, words });
    }
    if let Some(got) = asked.listed.filter(|listed| usize::from(*listed) > MOST_LISTED) {
        return Err(DecodeError::Listed { sequence, got });
    }
    if asked.allowed.is_some() && asked.max_tokens > 1 {
        return Err(DecodeError::MaskedSteps { sequence, steps: asked.max_tokens });
    }
    match asked.stops.len() {
        got if got > MAX_STOPS => Err(DecodeError::Stops { sequence, got }),
        _ => Ok(()),
    }
}
