//! When a device is warm: its times have stopped moving, and it has worked long enough for its clocks to rise.

/// Watches warm-up times. Tolerance, patience and cap are CubeCL's; the floor of 250 ms is there because two warm-up
/// pairs have been seen to choose the wrong winner (meganeura).
#[derive(Clone, Debug)]
pub struct Warmup {
    rule: WarmupRule,
    seen: usize,
    total_ns: f64,
    /// First sample of the present level, and how many have stayed with it since.
    level: Option<(f64, usize)>,
}

/// When [`Warmup`] is content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmupRule {
    /// Samples within this share of the first of their level stay on it.
    pub tolerance: f64,
    /// So many samples must stay on the level of the one before them.
    pub patience: usize,
    /// After so many samples the search for a plateau is given up.
    pub cap: usize,
    /// Work to be done in any case, in nanoseconds.
    pub min_ns: f64,
}

impl Default for WarmupRule {
    fn default() -> Self {
        Self { tolerance: 0.03, patience: 3, cap: 50, min_ns: 250e6 }
    }
}

/// Where a warm-up stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// Go on.
    Warming,
    /// The times lie on a plateau.
    Settled,
    /// The cap was reached without a plateau: measure, and expect noise.
    Restless,
}

impl Warmup {
    /// A warm-up that has seen nothing.
    pub const fn new(rule: WarmupRule) -> Self {
        Self { rule, seen: 0, total_ns: 0.0, level: None }
    }

    /// Takes the next time and says whether to go on. A level is held against its *first* sample, so that a slow ramp
    /// of steps each within the tolerance is not taken for a plateau.
    pub fn push(&mut self, ns: f64) -> Warmth {
        self.push_part(ns, ns)
    }

    /// As [`Warmup::push`], for the time of one of many things that took `work_ns` together.
    pub fn push_part(&mut self, ns: f64, work_ns: f64) -> Warmth {
        self.seen += 1;
        self.total_ns += work_ns;
        self.level = match self.level {
            Some((first, stayed)) if (ns - first).abs() <= self.rule.tolerance * first => Some((first, stayed + 1)),
            _ => Some((ns, 0)),
        };
        let settled = self.level.is_some_and(|(_, stayed)| stayed >= self.rule.patience);
        if self.total_ns < self.rule.min_ns {
            Warmth::Warming
        } else if settled {
            Warmth::Settled
        } else if self.seen >= self.rule.cap {
            Warmth::Restless
        } else {
            Warmth::Warming
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: WarmupRule = WarmupRule { tolerance: 0.03, patience: 3, cap: 50, min_ns: 0.0 };

    /// How many samples it took, and to what end.
    fn warmed(rule: WarmupRule, mut time: impl FnMut(usize) -> f64) -> (usize, Warmth) {
        let mut warmup = Warmup::new(rule);
        (0..1_000).map(|i| (i + 1, warmup.push(time(i)))).find(|(_, w)| *w != Warmth::Warming).unwrap()
    }

    #[test]
    fn a_plateau_needs_patience() {
        assert_eq!(warmed(RULE, |_| 100.0), (4, Warmth::Settled));
        assert_eq!(warmed(RULE, |i| if i < 5 { 200.0 - 20.0 * i as f64 } else { 100.0 }), (9, Warmth::Settled));
    }

    #[test]
    fn a_slow_ramp_is_no_plateau() {
        // Each step is 2 %, inside the tolerance; the ramp ends at sample 30.
        let (samples, warmth) = warmed(RULE, |i| 100.0 * 0.98f64.powi(i.min(30) as i32));
        assert!(samples > 30, "settled on the ramp after {samples}");
        assert_eq!(warmth, Warmth::Settled);
    }

    #[test]
    fn noise_ends_at_the_cap() {
        assert_eq!(warmed(RULE, |i| if i % 2 == 0 { 100.0 } else { 110.0 }), (50, Warmth::Restless));
        assert_eq!(warmed(RULE, |_| f64::NAN), (50, Warmth::Restless));
    }

    #[test]
    fn short_samples_go_on_to_the_floor() {
        let rule = WarmupRule { min_ns: 250e6, ..RULE };
        assert_eq!(warmed(rule, |_| 2e6), (125, Warmth::Settled));
        assert_eq!(warmed(rule, |i| if i % 2 == 0 { 2e6 } else { 3e6 }), (100, Warmth::Restless));
    }
}
