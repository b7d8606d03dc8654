//! Checks of file modes: what other users of this machine can change or read.

use super::Diagnosis;
use crate::cli::permissions;
use crate::settings::Settings;

const ABOUT: &str = "modes";

pub(super) fn examine(settings: &Settings) -> Vec<Diagnosis> {
    let found = permissions::examine(settings).into_iter().map(|one| {
        let finding = match one.is_open {
            true => Diagnosis::broken(ABOUT, one.message()),
            false => Diagnosis::warning(ABOUT, one.message()),
        };
        finding.hint(one.hint())
    });
    let found: Vec<Diagnosis> = found.collect();
    if !found.is_empty() || cfg!(not(unix)) {
        return found;
    }
    let message = "other users of this machine can change neither settings nor tools nor data";
    vec![Diagnosis::ok(ABOUT, message)]
}
