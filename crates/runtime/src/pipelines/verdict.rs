//! The stored result of a check of a device: whether matrix units or a megakernel compute right there.

/// What a check of a device gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It computes what it should.
    Right,
    /// It refuses, or computes something else.
    Wrong(String),
}

const RIGHT: &[u8] = b"right";
const WRONG: &[u8] = b"wrong: ";

impl Verdict {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Verdict::Right => RIGHT.to_vec(),
            Verdict::Wrong(why) => [WRONG, why.as_bytes()].concat(),
        }
    }

    /// `None` if it is none.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes == RIGHT {
            return Some(Verdict::Right);
        }
        Some(Verdict::Wrong(String::from_utf8(bytes.strip_prefix(WRONG)?.to_vec()).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_round_trips_through_bytes() {
        for verdict in
            [Verdict::Right, Verdict::Wrong("7 of 9 numbers are wrong".to_owned()), Verdict::Wrong(String::new())]
        {
            assert_eq!(Verdict::from_bytes(&verdict.to_bytes()), Some(verdict));
        }
        for none in [b"".as_slice(), b"righ", b"right ", b"Right", b"wrong", b"wrong: \xff"] {
            assert_eq!(Verdict::from_bytes(none), None, "{none:?}");
        }
    }
}
