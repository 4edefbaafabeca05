//! Mesa's words on standard error that help nobody.

/// Where the desktop's folder is not set, as in containers, a layer that Mesa puts into every Vulkan program complains about that
/// twice in a run: any folder without a socket of a display will do.
///
/// To be called before there is another thread.
#[cfg(target_os = "linux")]
pub(crate) fn quieten() {
    const DESKTOP: &str = "XDG_RUNTIME_DIR";
    if std::env::var_os(DESKTOP).is_none() {
        // SAFETY: the caller has no other thread, which could read the environment meanwhile.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(DESKTOP, std::env::temp_dir());
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn quieten() {}
