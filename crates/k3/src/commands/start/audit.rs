//! Flags of the audit log.

use std::path::PathBuf;

use clap::Args;
use k3_apiserver::{AuditConfig, AuditLogFile, AuditPolicy};

use crate::command_error::CommandError;

const MEBIBYTE: u64 = 1024 * 1024;

#[derive(Debug, Args)]
#[command(next_help_heading = "Audit log")]
#[expect(clippy::struct_field_names, reason = "the names are those of the flags")]
pub(crate) struct AuditFlags {
    /// Audit policy: a file with a Policy of audit.k8s.io/v1. Needs --audit-log-path
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,

    /// Audit log file, one JSON object per line; - is standard output. Needs --audit-policy-file
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,

    /// Maximum size of the audit log in MiB before it is rotated
    #[arg(long, value_name = "MIB", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    audit_log_maxsize: u64,

    /// Days to keep rotated audit logs; 0 keeps them forever
    #[arg(long, value_name = "DAYS", default_value_t = 366)]
    audit_log_maxage: u64,

    /// Number of rotated audit logs to keep; 0 keeps all
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    audit_log_maxbackup: usize,

    /// Compress rotated audit logs
    #[arg(long)]
    audit_log_compress: bool,
}

// --- AuditFlags ---

impl AuditFlags {
    /// The audit configuration; `None` if auditing is off.
    pub(in crate::commands) fn config(&self) -> Result<Option<AuditConfig>, CommandError> {
        let (Some(policy), Some(path)) = (&self.audit_policy_file, &self.audit_log_path) else {
            return Ok(None);
        };
        let policy = AuditPolicy::read(policy).map_err(|error| {
            CommandError::new(
                "cannot use --audit-policy-file",
                "it must be a Policy of audit.k8s.io/v1 with rules, each with a level",
            )
            .caused_by(error)
        })?;
        Ok(Some(AuditConfig {
            policy,
            log: AuditLogFile {
                path: path.clone(),
                longest: self.audit_log_maxsize.saturating_mul(MEBIBYTE),
                most_backups: self.audit_log_maxbackup,
                most_days: self.audit_log_maxage,
                compress: self.audit_log_compress,
            },
        }))
    }
}
