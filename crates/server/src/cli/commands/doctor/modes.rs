//! File modes: what other users of this machine could change or read.

use super::Finding;
use crate::cli::permissions;
use crate::settings::Settings;

const ABOUT: &str = "modes";

pub(super) fn examine(settings: &Settings) -> Vec<Finding> {
    let found = permissions::examine(settings).into_iter().map(|one| {
        let finding = match one.is_open {
            true => Finding::broken(ABOUT, one.message()),
            false => Finding::warning(ABOUT, one.message()),
        };
        finding.hint(one.hint())
    });
    let found: Vec<Finding> = found.collect();
    if !found.is_empty() || cfg!(not(unix)) {
        return found;
    }
    let message = "other users of this machine can change neither settings nor tools nor data";
    vec![Finding::ok(ABOUT, message)]
}
