/** The SDK of Elevo for TypeScript and JavaScript. */
export * from './admin.js'
export type { RequestOptions } from './api.js'
export type { ApiPromise, ApiResult } from './api-promise.js'
export type { Diff, DiffOptions, DiffStat, MergeOptions, MergeResult, Refreshed } from './changes.js'
export { type ClientConfig, WorkspaceClient, withSandbox } from './client.js'
export type { Command, CommandResult, OutputCallbacks } from './command.js'
export type { CommandEvent, ExitEvent, GapEvent, OutputEvent, StartEvent } from './command-events.js'
export * from './errors.js'
export type { Event, EventGap, EventOptions, EventService } from './events.js'
export type {
    FileInfo,
    Files,
    ListFilesOptions,
    RangeOptions,
    ReadOptions,
    StoredFiles,
    WatchEvent,
    WriteOptions,
} from './files.js'
export * from './generated/errors.js'
export type { List, Page, PageOptions } from './pages.js'
export type { PortLink, PortService } from './ports.js'
export type { CommandInfo, ProcessService, RunOptions, StartOptions, StreamOptions } from './process.js'
export type {
    Blame,
    FileVersion,
    ImportResult,
    Project,
    ProjectData,
    ProjectPolicy,
    ProjectService,
    Step,
    Tag,
    WorkspacesMerged,
} from './projects.js'
export type { AttachOptions, PTYOptions, PTYService, Ticket } from './pty.js'
export type { Ref, Schemas } from './resource.js'
export type { Decision, Review, ReviewData, ReviewService, Take } from './reviews.js'
export type {
    DeleteOptions,
    Forked,
    ForkOptions,
    Logs,
    LogsOptions,
    Sandbox,
    SandboxData,
    SandboxStats,
    UpdateSandboxParams,
} from './sandbox.js'
export type {
    BatchDeleteResponse,
    CreateSandboxParams,
    ListSandboxesOptions,
    ProjectSource,
    SandboxPage,
    SandboxService,
} from './sandboxes.js'
export type { Signal } from './signals.js'
export type { Snapshot, SnapshotData, SnapshotService } from './snapshots.js'
export type { Terminal, TerminalExit } from './terminal.js'
export { FetchTransport, type RequestBody, type Transport, type TransportRequest } from './transport.js'
export {
    type Delivery,
    type RotatedWebhook,
    type VerifyOptions,
    verifyWebhook,
    type Webhook,
    type WebhookService,
} from './webhooks.js'
export type { CreateWorkspaceParams, Workspace, WorkspaceData, WorkspaceService } from './workspaces.js'
