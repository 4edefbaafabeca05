//! A full disk makes every program fail with a different message; after a failure xtask looks itself.

use crate::wgoose::target;
use std::io::{self, ErrorKind, Write};

/// Bytes without which nothing is built.
const ROOM: usize = 64 << 20;

/// What to do where the disk of the target folder is full; `None` where it is not.
pub(crate) fn complaint() -> Option<String> {
    let filled = tempfile::tempfile_in(target()).and_then(|mut file| fill(&mut file));
    is_full(&filled).then(|| {
        let folder = target();
        format!("the disk of {} is full: free some gigabytes, for instance by `cargo clean`", folder.display())
    })
}

fn fill(to: &mut impl Write) -> io::Result<()> {
    let part = vec![0xa5; 1 << 20];
    (0..ROOM / part.len()).try_for_each(|_| to.write_all(&part))?;
    to.flush()
}

fn is_full(written: &io::Result<()>) -> bool {
    matches!(written, Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_noticed() {
        let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(is_full(&fill(&mut full)));
        assert!(!is_full(&fill(&mut io::sink())) && !is_full(&Err(ErrorKind::NotFound.into())));
    }
}
