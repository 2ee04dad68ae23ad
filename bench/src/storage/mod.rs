//! The stores: how fast they commit and deliver, how quickly they open, what they weigh.

pub(crate) mod backend;
mod bare_etcd;
mod disk;
mod footprint;
mod load;
mod lone;
mod opening;
mod report;
mod requirements;
mod watches;

use std::path::Path;

pub(crate) use self::footprint::weigh;
use self::{
    backend::Service,
    bare_etcd::BareEtcd,
    disk::BareLog,
    load::{StoreTarget, prefill},
    report::StorageReport,
};
use crate::{
    BenchError,
    choices::Backend,
    cpu::CpuMeter,
    directories::{data_directory, results, write},
    flags::StorageOptions,
    machine::MachineInfo,
};

/// Measures everything, prints it, and writes it down.
pub(crate) async fn run(options: &StorageOptions) -> Result<(), BenchError> {
    let dir = data_directory(options.dir.as_deref())?;
    let measured = measure(options, &dir).await;
    std::fs::remove_dir_all(&dir)?;
    let mut report = measured?;
    report.asked = requirements::compare(&report);
    report.print();
    write(&report, &results(options.json.as_deref(), "storage.json"))
}

async fn measure(options: &StorageOptions, dir: &Path) -> Result<StorageReport, BenchError> {
    let effort = options.effort;
    let mut report = StorageReport::new(MachineInfo::find(dir)?, effort);
    say("the disk alone");
    report.disk.push(disk::sync_rate(dir, effort)?);
    let log = BareLog::create(&dir.join("log"))?;
    report
        .commits
        .extend(load::levels("bare log", log, load::slots(), CpuMeter::new(None), effort).await?);

    for &backend in &options.backends {
        let name = backend.name();
        say(&format!("{name}: commits"));
        let directory = dir.join(name);
        let service = match Service::start(backend, &directory) {
            Ok(service) => service,
            Err(failure) => {
                say(&format!("{name} is left out: {failure}"));
                continue;
            }
        };
        let meter = CpuMeter::new(service.pid());
        if let Some(endpoint) = service.etcd_endpoint() {
            let bare = BareEtcd::new(endpoint)?;
            report
                .commits
                .extend(load::levels("bare etcd", bare, load::slots(), meter, effort).await?);
        }
        let store = service.open().await?;
        let slots = prefill(&store, load::slots()).await?;
        let target = StoreTarget::new(store.clone());
        report
            .commits
            .extend(load::levels(name, target, slots, meter, effort).await?);
        if backend == Backend::File {
            say("file: a lone writer and the disk, in turns");
            report.lone = Some(lone::measure(dir, &store, effort).await?);
        }
        if matches!(backend, Backend::Memory | Backend::File) {
            say(&format!("{name}: watches"));
            report
                .delivery
                .push(watches::delivery(name, &store, effort).await?);
            for watchers in [1, 100, 1000] {
                report
                    .fan_out
                    .push(watches::fan_out(name, &store, watchers, effort).await?);
            }
        }
        store.close().await;
        drop(store);
        drop(service);
        say(&format!("{name}: memory"));
        report
            .memory
            .push(footprint::memory(backend, &dir.join("weigh"), effort)?);
    }
    if options.backends.contains(&Backend::File) {
        say("file: opening");
        report.opening = opening::measure(&dir.join("opening"), effort).await?;
        say("file: size on disk");
        report.size = Some(footprint::size(&dir.join("size"), effort).await?);
    }
    // Once more: on a machine that others use, the disk is not the same from one minute to the next.
    say("the disk alone");
    report.disk.push(disk::sync_rate(dir, effort)?);
    Ok(report)
}

/// Reports progress on standard error.
fn say(what: &str) {
    eprintln!("measuring {what}");
}
