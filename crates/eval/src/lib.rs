//! Measuring answers: labelled requests in, figures, tables and charts out.
//!
//! Whoever publishes a figure about a model, or doubts one, has to be able to compute it again. So this crate asks any
//! [`Answerer`] the requests of a data file, and computes from the answers what [`measure`] defines, to the letter; it
//! knows no model. A [`Dataset`] is read line by line, [`run`] asks and keeps the answers as [`Outcome`]s (and on disk as
//! [`Results`], so that it can go on later), [`Evaluation`] and [`Drift`] measure them, and a [`Chart`] shows them.
//!
//! ```
//! use clef_eval::{AnswerError, Answerer, Dataset, DatasetOptions, Evaluation, MeasureOptions, RunOptions, run};
//!
//! /// Always sure.
//! struct Yes;
//!
//! impl Answerer for Yes {
//!     fn answer(&self, _body: &[u8]) -> Result<Vec<u8>, AnswerError> {
//!         Ok(br#"{"answers": {"angry": {"type": "noul", "noul": 1.0}}}"#.to_vec())
//!     }
//! }
//!
//! # fn main() -> clef_eval::Result<()> {
//! let data = br#"
//! {"gold": {"angry": true}, "state": "I am furious!", "questions": {"angry": {"type": "noul"}}}
//! {"gold": {"angry": false}, "state": "Thank you.", "questions": {"angry": {"type": "noul"}}}
//! "#;
//! let dataset = Dataset::new(&data[..], DatasetOptions::default());
//! let run = run(dataset, &Yes, &RunOptions::default(), &|progress| assert_eq!(progress.errors, 0))?;
//! let evaluation = Evaluation::of("yes", &run.outcomes, &MeasureOptions::default());
//! assert_eq!(evaluation.overall.accuracy, Some(0.5));
//! # Ok(())
//! # }
//! ```

mod answer;
mod answerer;
mod bench;
mod cancel;
mod case;
mod charts;
mod dataset;
mod drift;
mod error;
mod evaluation;
mod fields;
mod gold;
pub mod measure;
mod outcome;
mod reasons;
mod remote;
mod results;
mod run;
mod stats;
mod table;
mod transport;

pub use answer::{Answer, read_answers};
pub use answerer::{AnswerError, AnswerErrorKind, Answerer};
pub use bench::{BenchReport, BenchRow};
pub use cancel::Cancel;
pub use case::{Case, LineFault, Question, RequestDigest};
pub use charts::Chart;
pub use dataset::{Dataset, DatasetOptions, Input, Line};
pub use drift::{Drift, Moved, Shift, ShiftSlice, Side, SideReason};
pub use error::{Error, ErrorKind, Result};
pub use evaluation::{Detail, Evaluation, FailedRecord, Slice};
pub use gold::Gold;
pub use measure::{Bin, MeasureOptions, Measures};
pub use outcome::{Failure, Outcome, Reply};
pub use reasons::Reason;
pub use remote::{Remote, RemoteOptions};
pub use results::Results;
pub use run::{Progress, Run, RunOptions, run};
