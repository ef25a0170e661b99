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

if is("Applied", "False") then
  return health("Degraded", "Applied", "manifests are not applied")
end
if not is("Applied", "True") then
  return { status = "Progressing", message = "the agent has not applied this version" }
end
if is("Available", "True") then
  return health("Healthy", "Available", "all resources are available")
end
if is("Available", "False") then
  return health("Degraded", "Available", "resources are not available")
end
return health("Progressing", "Available", "the agent has not reported whether the resources are available")
