//! Figures for those who watch over the server, in the text form of Prometheus.

use std::fmt::Write;

use crate::cache::Caches;

/// All figures.
pub(super) fn text(caches: &Caches) -> String {
    let mut out = String::from(
        "# HELP apiserver_resource_objects Number of stored objects at the time of last check split by kind.\n\
         # TYPE apiserver_resource_objects gauge\n",
    );
    for (group, resource, count) in caches.counts() {
        writeln!(
            out,
            "apiserver_resource_objects{{group=\"{group}\",resource=\"{resource}\"}} {count}"
        )
        .expect("text can be written to memory");
    }
    let applied = caches.applied();
    writeln!(
        out,
        "# HELP k3_cache_revision The revision up to which the caches have everything that is stored.\n\
         # TYPE k3_cache_revision gauge\nk3_cache_revision {applied}"
    )
    .expect("text can be written to memory");
    out
}
