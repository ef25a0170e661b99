local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end

-- Whether a condition has a status, and is about the present spec where it says what it is about.
local function is(type, status)
  local condition = conditions[type]
  if condition == nil or condition.status ~= status then
    return false
  end
  local observed = condition.observedGeneration
  return observed == nil or observed == 0 or observed >= (obj.metadata.generation or 0)
end

local function health(status, type, otherwise)
  local condition = conditions[type]
  local message = otherwise
  if condition ~= nil and condition.message ~= nil and condition.message ~= "" then
    message = condition.message
  end
  return { status = status, message = message }
end

if is("Ready", "False") then
  return health("Degraded", "Ready", "the policy is not valid")
end
if obj.spec ~= nil and obj.spec.paused then
  return { status = "Suspended", message = "rollouts are paused" }
end
if is("ApprovalNeeded", "True") then
  return health("Suspended", "ApprovalNeeded", "a rollout waits for an approval")
end
if is("Ready", "True") then
  return health("Healthy", "Ready", "the policy is in force")
end
return { status = "Progressing", message = "the policy has not been read" }
