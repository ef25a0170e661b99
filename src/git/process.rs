//! Process-wide settings of libgit2.

use std::sync::Once;

use git2::ConfigLevel;

use super::pack_limits::{MAX_OBJECT_BYTES, MAX_PACK_OBJECTS};
use super::transport;

/// Sets limits for packs, and installs our transports. Ignores the configuration of the user and the machine,
/// so that neither `url.*.insteadOf` nor a credential helper changes the meaning of a repository's address.
pub(super) fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        transport::register();
        for level in [ConfigLevel::ProgramData, ConfigLevel::System, ConfigLevel::XDG, ConfigLevel::Global] {
            // This only fails without memory. The defaults then stay.
            #[expect(
                unsafe_code,
                reason = "changes a C global; `Once` runs it before any other call of ours into libgit2"
            )]
            let _ = unsafe { git2::opts::set_search_path(level, "") };
        }
        let limits = [
            (libgit2_sys::GIT_OPT_SET_PACK_MAX_OBJECT_SIZE, MAX_OBJECT_BYTES),
            (libgit2_sys::GIT_OPT_SET_PACK_MAX_OBJECTS, MAX_PACK_OBJECTS),
        ];
        for (option, limit) in limits {
            #[expect(
                unsafe_code,
                reason = "changes a C global of type size_t; `Once` runs it before any other call of ours into libgit2"
            )]
            let code = unsafe { libgit2_sys::git_libgit2_opts(option as std::ffi::c_int, limit) };
            debug_assert_eq!(code, 0);
        }
    });
}
