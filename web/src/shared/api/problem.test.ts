import { expect, it } from "vitest";
import { apiError } from "./problem";

it("reads problem+json", () => {
  const body = {
    title: "Bad Request",
    detail: "The name has a slash.",
    code: "invalid_name",
    field: "name",
  };
  expect(apiError(400, body)).toMatchObject({
    failure: "refused",
    message: "The name has a slash.",
    code: "invalid_name",
    field: "name",
  });
});

it("reads OpenAI's shape", () => {
  const body = { error: { message: "Too hot.", param: "temperature", code: null } };
  expect(apiError(400, body)).toMatchObject({ message: "Too hot.", field: "temperature" });
});

it("reads how long to wait", () => {
  expect(apiError(429, {}, "40")).toMatchObject({ failure: "limited", retryAfterSeconds: 40 });
});

it.each([
  [401, "signed-out"],
  [403, "forbidden"],
  [404, "missing"],
  [503, "unavailable"],
])("takes status %i as %s, whatever the body is", (status, failure) => {
  expect(apiError(status, "<html>")).toMatchObject({ failure });
});
