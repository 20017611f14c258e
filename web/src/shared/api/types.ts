/** The API's nouns, under the names the pages use. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Session = Schemas["Session"];
export type Offer = Schemas["Offer"];
export type Adapter = Schemas["Adapter"];
export type Version = Schemas["Version"];
export type Alias = Schemas["Alias"];
export type Rollout = Schemas["Rollout"];
export type AliasMove = Schemas["AliasMove"];
export type Upload = Schemas["Upload"];
export type Reason = Schemas["Reason"];
export type Worker = Schemas["Worker"];
export type TierLoad = Schemas["TierLoad"];
export type WorkerLoad = Schemas["WorkerLoad"];
export type Model = Schemas["Model"];
export type ChatBody = Schemas["ChatBody"];
export type ChatChunk = Schemas["ChatChunk"];
export type OpenAIError = Schemas["OpenAIError"];
